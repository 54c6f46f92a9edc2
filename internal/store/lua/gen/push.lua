-- push: stores jobs. If a job of the same ID exists, the policy decides.
local DEFAULT = ''
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local REPLACE = 'replace'
local call, ARGV = redis.call, ARGV -- globals are slower

-- A plain push, which most are: one new waiting job of a known topic. It returns before the definitions that only other pushes need, which
-- would cost as much as its commands.
local policy, id = ARGV[5], ARGV[7]
local is_plain = #ARGV == 10 and ARGV[1] == '0' and (policy == DEFAULT or not string.find(policy, ' ', 1, true))
local is_new = is_plain and call('EXISTS', buckets .. id) == 0
if is_new and ARGV[10] ~= '0' then
  local name, due, lifetime = buckets .. id, ARGV[10] + 0, ARGV[4] + 0
  if due < 0 then due = now - due end
  local may, protected = redis.acl_check_cmd, rawget(_G, 'pcall') -- as in not_permitted, which a plain push does without
  local is_known, sets, expires = true, true, true
  if may then is_known, sets = protected(may, 'HSET', name, 'topic', '') end
  if may and is_known then is_known, expires = protected(may, 'PEXPIRE', name, '1') end
  if due > begun and is_known and sets and expires then
    local part = due % 1000
    local score = part == 0 and string.format('%d', due / 1000) or string.format('%d.%03d', (due - part) / 1000, part) -- as score_of does
    call('ZADD', pool, score, id)
    if ARGV[6] == '' then
      call('HSET', name, 'topic', ARGV[8], 'body', ARGV[9])
    else
      call('HSET', name, 'topic', ARGV[8], 'body', ARGV[9], 'options', ARGV[6])
    end
    call('PEXPIRE', name, string.format('%d', due - now + lifetime))
    local ANNOUNCED_WITHIN = 60000
    if due - now <= ANNOUNCED_WITHIN then
      local first_due_channel = prefix .. 'first_due'
      local function announce(score, wait)
        if wait > ANNOUNCED_WITHIN then return end
        local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
        local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
        if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
      end
      announce(score, due - now)
    end
    return nil
  end
end

local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local FIRST = 3 -- place of the first run

-- Writes the bucket of the job that begins at ARGV[i], in the run that begins at ARGV[run].
local function write(name, i, run, expiry)
  local options = ARGV[run + 3]
  local usual = options == ''
  if usual then
    call('HSET', name, 'topic', ARGV[i + 1], 'body', ARGV[i + 2])
  else
    call('HSET', name, 'topic', ARGV[i + 1], 'body', ARGV[i + 2], 'options', options)
  end
  call('PEXPIRE', name, expiry)
  return usual
end

local function not_writable_bucket(name)
  return not_permitted('HSET', name, 'topic', '') or not_permitted('PEXPIRE', name, '1')
end

local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end
local queues = prefix .. 'ready_queue:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
      local parked_queues = prefix .. 'paused_queue:'
      local pauses = prefix .. 'paused'
      local function is_parked(topic, reply)
        return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
      end
      if not is_parked(topic, first) then return false, first.err end
      local queue, parked = queues .. topic, parked_queues .. topic
      for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
        waking_left = waking_left - 1
        local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end
      end
      return false
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
-- Why a due job can't be put into its queue, or nil.
local function not_queueable(topic)
  local queue = queues .. topic
  local err = not_permitted('LPUSH', queue, '') or not_permitted('ZREM', pool, '') or not_a_list(queue)
  if err then return err.err end
  local cardinality = redis.pcall('ZCARD', pool)
  if type(cardinality) == 'table' then return cardinality.err .. ' (job pool ' .. pool .. ')' end
end

if is_new then -- it is ready at once
  local name = buckets .. ARGV[7]
  local why_not = not_queueable(ARGV[8])
  if why_not then return {1, why_not} end
  local err = not_writable_bucket(name)
  if err then return err end
  write(name, 7, FIRST, ARGV[4])
  call('ZREM', pool, ARGV[7])
  wake(ARGV[8], call('LPUSH', queues .. ARGV[8], ARGV[7]))
  return {}
end

local EARLIER = 'earlier'
local KEPT_DUE = 2
local LATER_DUE = 'later'
local REFUSE = 'refuse'
local REPLACED = 1
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local LAST_MS = 9007199254740992
-- The due time of a job with this policy that replaces one with another due time, and the outcome to return.
local function replaced_due(policy, old, due)
  if policy == EARLIER and old < due or policy == LATER_DUE and old > due then return old, KEPT_DUE end
  return due, REPLACED
end

-- The due time of the job with this score.
local function due_of(score)
  return math.min(math.ceil(tonumber(score) * 1000), LAST_MS) -- never early
end

-- Deletes the other fields of a replaced job's bucket, except the time of its first push if that is to be kept.
local function forget(name, usual, keep_first)
  redis.pcall('HDEL', name, 'lease', 'error', usual and 'options' or 'error', keep_first and 'error' or 'first', 'next', 'next_body')
end

if is_plain and policy ~= REFUSE and ARGV[10] ~= '0' then -- a job that waits is replaced by one that waits
  local name, waits = buckets .. ARGV[7], call('ZSCORE', pool, ARGV[7])
  local was = waits and not is_lease(waits) and redis.pcall('HGET', name, 'topic')
  if was == ARGV[8] or policy == REPLACE and type(was) == 'string' then
    local due, what = now - ARGV[10], nil
    if tonumber(ARGV[10]) > 0 then due = tonumber(ARGV[10]) end
    due, what = replaced_due(policy, due_of(waits), due)
    if due > begun then
      local err = not_writable_bucket(name)
      if err then return err end
      call('ZADD', pool, score_of(due), ARGV[7])
      forget(name, write(name, 7, FIRST, string.format('%d', math.max(due - now, 0) + ARGV[4])))
      announce(score_of(due), due - now)
      return {1, what}
    end
  end
end

local ALL_OR_NONE = 'all'
local reserved_counts = prefix .. 'reserved'
local HAS_SLOTS = 1649267441664
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      local slots = prefix .. 'slots:'
      local throttled_waiters = prefix .. 'throttled_waiters:'
      local function wake_throttled(topic)
        if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
        local jobs = redis.pcall('LLEN', queues .. topic)
        if jobs == 0 then
          local paused_waiters = prefix .. 'paused_waiters:'
          local WAITING_FOR = 3600000
          local function end_throttling(topic)
            local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
            if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
            for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
            if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
          end
          end_throttling(topic)
        end
        while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
          local first = redis.pcall('ZPOPMIN', throttled_waiters .. topic)
          if not first[1] then
            return wake(topic, jobs)
          end
          local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
          if receivers ~= 0 then return type(receivers) == 'number' end
          waking_left = waking_left - DEAD_COST
        end
        return false
      end
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      wake_throttled(topic)
    end
  end
end
local entries_to_walk = 10000
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    local parked_queues = prefix .. 'paused_queue:'
    queue = parked_queues .. topic
  end
end
-- Stores the job at ARGV[i], in the run at ARGV[run]. If it waits, it is in the pool already. latest is how long after its first push it
-- is due at the latest (ms); nil without such a bound.
local last_due, last_lifetime, last_expiry -- jobs of one call often have all of this in common
local ended -- leases: how many, by topic, and their jobs
local lengths -- of the queues that get jobs, by topic
local used = ARGV[1] == '1' and {} -- topics, and when the last of their jobs is due
local function store(name, i, run, due, replaced, latest)
  local id, topic, lifetime = ARGV[i], ARGV[i + 1], ARGV[run + 1]
  if due ~= last_due or lifetime ~= last_lifetime then
    last_due, last_lifetime = due, lifetime
    last_expiry = string.format('%d', math.max(due - now, 0) + lifetime)
  end
  local usual = write(name, i, run, last_expiry)
  if latest and not (replaced and replaced.first) then
    call('HSET', name, 'first', string.format('%d', begun))
  end
  if used then used[topic] = math.max(used[topic] or 0, due) end
  if replaced then
    forget(name, usual, latest)
    if replaced.ready then withdraw(replaced.ready, id) end
    if replaced.reserved then
      ended = ended or {{}, {}}
      ended[1][replaced.reserved], ended[2][#ended[2] + 1] = (ended[1][replaced.reserved] or 0) - 1, id
    end
  end
  if due <= begun then
    redis.pcall('ZREM', pool, id) -- pcall, as an ID that is gone can't be written while its slot moves
    lengths = lengths or {}
    lengths[topic] = call('LPUSH', queues .. topic, id)
  end
end

-- How to judge and store the jobs of the run at ARGV[run], whose IDs may exist or whose policy is not plain. Most calls have no such run and
-- skip these definitions. (A script of its own would have to store plain jobs too: a call may have both, and stores all or none.)
local function special(run)
  local ALREADY_EXISTS = 0
  local FOLLOW = 'follow'
  local FOLLOWS = 3
  local once = prefix .. 'once'
  local function keep_once(ms)
    if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
  end
  local OVER = 10
  local function count_once(id, window)
    redis.call('ZADD', once, string.format('%d', now + window), id)
    keep_once(window)
    local over = redis.call('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
    if #over > 0 then redis.call('ZREM', once, unpack(over)) end
  end
  local DEBOUNCE_FORM = '^debounce (%d+)$'
  local function debounce_limit(policy)
    local ms = policy ~= DEFAULT and string.match(policy, DEBOUNCE_FORM)
    return ms and tonumber(ms)
  end
  local function debounced(limit, due, first)
    return math.max(math.min(due, (first or begun) + limit), begun)
  end
  local function has_counted(id)
    local until_ms = redis.call('ZSCORE', once, id)
    return until_ms and tonumber(until_ms) - now > 0
  end
  local function not_once()
    return not_permitted('ZADD', once, '0', '') or not_permitted('PTTL', once) or not_permitted('PEXPIRE', once, '1')
      or not_permitted('ZRANGEBYSCORE', once, '0', '0') or not_permitted('ZREM', once, '')
  end
  local ONCE_FORM = '^once (%d+) ?(.*)$'
  local function once_window(policy)
    if policy == DEFAULT then return nil end
    local ms, fingerprint = string.match(policy, ONCE_FORM)
    return ms and tonumber(ms), fingerprint
  end
  local now_s = now_us / 1000000
  local policy = ARGV[run + 2]
  local window, fingerprint = once_window(policy)
  local latest = debounce_limit(policy)

  -- Returns why the job at ARGV[i] can't be stored: ALREADY_EXISTS, REUSED, {topic}, an error's text, or nil. Then when it is due; and the job that it
  -- replaces, if any: the field ready or reserved has its topic; if this job follows it, followed has the text of its lease, and options its
  -- options.
  local function judge(name, i, due, may_exist)
    local id, was = ARGV[i], may_exist and redis.pcall('HGET', name, 'topic')
    if type(was) == 'table' then return was.err .. ' (job bucket ' .. name .. ')' end
    if was and (window or policy == REFUSE) or window and has_counted(id) then
      if fingerprint and fingerprint ~= '' then
        local REUSED = 4
        local once_contents = prefix .. 'once_content:'
        local function differs_from_counted(id, fingerprint)
          local until_ms = redis.call('ZSCORE', once, id)
          local counts = until_ms and redis.pcall('HGET', once_contents .. id, 'of')
          local first = type(counts) == 'string' and string.match(counts, '^' .. until_ms .. ' (.*)$')
          return first and first ~= fingerprint
        end
        if differs_from_counted(id, fingerprint) then return REUSED end
      end
      return ALREADY_EXISTS
    end
    if was and was ~= ARGV[i + 1] and policy ~= REPLACE then return {was} end
    if not was then return nil, latest and debounced(latest, due) or due end
    local err = not_writable_bucket(name)
    if err then return err.err end
    local waits = call('ZSCORE', pool, id)
    local reserved = waits and is_lease(waits)
    local followed = policy == FOLLOW and reserved and tonumber(waits) > now_s and call('HGET', name, 'lease')
    if followed then
      err = not_permitted('PTTL', name)
      if err then return err.err end
      return nil, due, {followed = followed, options = call('HGET', name, 'options'), what = FOLLOWS}
    end
    local when, what = replaced_due(policy, waits and not reserved and due_of(waits) or begun, due)
    local burst = latest and call('HMGET', name, 'first', 'lease')
    local first = burst and not burst[2] and burst[1] and tonumber(burst[1])
    if latest then when = debounced(latest, when, first) end
    return nil, when, {ready = not waits and was, reserved = reserved and was, what = what, first = first}
  end

  -- Stores it, or lets it follow the job that it would replace.
  local function finish(name, i, due, replaced)
    if replaced and replaced.followed then
      local function read_lease(text)
        if not text then return 0, 0, 0, 0 end
        local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
        return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
      end
      local function lifetime_left(ttl, token, lent)
        if ttl < 0 then return ttl end
        local reserved = math.floor(token / 1000)
        if reserved == 0 or reserved > now then reserved = now end
        return math.max(ttl - lent + now - reserved, 1)
      end
      --
      local FOLLOWER_BYTE = 43
      local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
      local FOLLOWER_MARK = '+'
      local function mark_follower(text) return has_follower(text) and text or FOLLOWER_MARK .. text end
      local DEFAULT_OPTIONS = '0 0 604800000'
      local function lease_text(attempts, token, lent, left)
        return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
      end
      local function store_follower(name, text, own, topic, body, due, lifetime, options)
        local attempts, token, lent = read_lease(text)
        local left, needed = lifetime_left(redis.call('PTTL', name), token, lent), math.max(due - now, 0) + lifetime
        redis.call('HSET', name, 'next', string.format('%d %d ', due > begun and due or 0, #topic) .. topic .. options, 'next_body', body,
          'options', mark_follower(own or DEFAULT_OPTIONS))
        if left >= 0 and left < needed then
          redis.call('PEXPIRE', name, string.format('%d', needed))
          redis.call('HSET', name, 'lease', mark_follower(lease_text(attempts, token, 0, needed)))
        elseif not has_follower(text) then
          redis.call('HSET', name, 'lease', mark_follower(text))
        end
      end
      store_follower(name, replaced.followed, replaced.options, ARGV[i + 1], ARGV[i + 2], due, ARGV[run + 1], ARGV[run + 3])
    else
      store(name, i, run, due, replaced, latest)
    end
    if window then
      count_once(ARGV[i], window)
      if fingerprint ~= '' then
        local once_contents = prefix .. 'once_content:'
        local function keep_fingerprint(id, fingerprint, window)
          local until_ms = redis.call('ZSCORE', once, id)
          redis.pcall('HSET', once_contents .. id, 'of', until_ms .. ' ' .. fingerprint)
          redis.pcall('PEXPIRE', once_contents .. id, string.format('%d', window))
        end
        keep_fingerprint(ARGV[i], fingerprint, window)
      end
    end
  end

  return judge, finish, window and not_once
end

-- The first write is always one that Redis refuses at maxmemory, so that a push is refused whole. ZADD comes first also because it fails if
-- the pool has the wrong type.
local told, first_due = {}, math.huge -- the reply; when the first of the waiting jobs is due
if #ARGV == FIRST + 7 then
  -- Most calls have one job. It does without tables, which cost as much as the commands.
  local name, due = buckets .. ARGV[7], tonumber(ARGV[10])
  if due <= 0 then due = due == 0 and begun or now - due end
  local exists = call('EXISTS', name) == 1
  local why_not, replaced, judge, finish, not_once
  if exists or string.find(policy, ' ', 1, true) then
    judge, finish, not_once = special(FIRST)
    why_not, due, replaced = judge(name, 7, due, exists)
  end
  local followed = replaced and replaced.followed
  if not why_not and due <= begun and not followed then why_not = not_queueable(ARGV[8]) end
  if why_not then return {1, why_not} end
  local err = not followed and not_writable_bucket(name) or not_once and not_once()
  if err then return err end
  if due > begun and not followed then
    first_due = due
    call('ZADD', pool, score_of(due), ARGV[7])
  end
  if finish then finish(name, 7, due, replaced) else store(name, 7, FIRST, due) end
  if replaced then told = {1, replaced.what} end
else
  local names, n, run = {}, 0, FIRST -- of the buckets
  while run < #ARGV do
    local next_run = run + 4 + 4 * ARGV[run]
    for i = run + 4, next_run - 1, 4 do
      n = n + 1
      names[n] = buckets .. ARGV[i]
    end
    run = next_run
  end
  -- One EXISTS for all, as most IDs are new.
  local some_exist = call('EXISTS', unpack(names)) > 0
  local dues, replaced, finishers, an_error, some_once = {}, {}, {}, false, nil
  local entries, last_scored, last_score = {} -- of the pool: score, ID, score, ID, …
  local k, e = 0, 0
  run = FIRST
  while run < #ARGV do
    local next_run = run + 4 + 4 * ARGV[run]
    local judge, finish, not_once
    if some_exist or string.find(ARGV[run + 2], ' ', 1, true) then judge, finish, not_once = special(run) end
    finishers[run], some_once = finish, some_once or not_once
    for i = run + 4, next_run - 1, 4 do
      k = k + 1
      local due, why_not, other = tonumber(ARGV[i + 3]), nil, nil
      if due <= 0 then due = due == 0 and begun or now - due end
      if judge then
        why_not, due, other = judge(names[k], i, due, some_exist)
        replaced[k] = other
      end
      local followed = other and other.followed
      if not why_not and due <= begun and not followed then why_not = not_queueable(ARGV[i + 1]) end
      dues[k] = not why_not and due
      if why_not then
        told[#told + 1], told[#told + 2] = k, why_not
        an_error = an_error or type(why_not) == 'string'
      elseif due > begun and not followed then
        if due ~= last_scored then last_scored, last_score = due, score_of(due) end
        entries[e + 1] = last_score
        entries[e + 2] = ARGV[i]
        e = e + 2
        if due < first_due then first_due = due end
      end
    end
    run = next_run
  end
  if an_error and ARGV[2] == ALL_OR_NONE then return told end
  local err = not_writable_bucket(names[1]) or some_once and some_once()
  if err then return err end
  if e > 0 then call('ZADD', pool, unpack(entries)) end
  k, run = 0, FIRST
  while run < #ARGV do
    local next_run, finish = run + 4 + 4 * ARGV[run], finishers[run]
    for i = run + 4, next_run - 1, 4 do
      k = k + 1
      local due, other = dues[k], replaced[k]
      if due and finish then
        finish(names[k], i, due, other)
        if other then told[#told + 1], told[#told + 2] = k, other.what end
      elseif due then
        store(names[k], i, run, due)
      end
    end
    run = next_run
  end
end
if ended then count_reserved(ended[1], ended[2]) end
if used then
  local known_topics = prefix .. 'topics'
  local USED_EACH = 60
  local function used_at(seconds)
    return string.format('%d', seconds - seconds % USED_EACH)
  end
  local SOON = 1800
  local topics_due = prefix .. 'topics_due'
  local function register_use(topic, seconds, due)
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
    if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
  end
  local pushed_topics = prefix .. 'pushed_topics'
  local function register_push(topic, seconds, due)
    register_use(topic, seconds, due)
    redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
  end
  for topic, last in pairs(used) do register_push(topic, now / 1000, last / 1000) end
end
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
if lengths then
  for topic, length in pairs(lengths) do wake(topic, length) end
end
return told
