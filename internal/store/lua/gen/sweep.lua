-- sweep: cleans up some of the known topics. It drops entries without a job from the ends of their ready queues from which jobs are delivered,
-- makes dead letters of jobs that are about to expire there, forgets empty topics, repairs numbers of reserved jobs, and removes IDs whose
-- push no longer counts.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local parked_queues = prefix .. 'paused_queue:'
local buckets = prefix .. 'job_bucket:'
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local FOLLOWER_BYTE = 43
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local dead_letters = prefix .. 'dead_letter:'
local pauses = prefix .. 'paused'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
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
local function pass_on(id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    wake(topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
local dead_lists = prefix .. 'dead_letters:'
local reserved_counts = prefix .. 'reserved'
local MAX_LEASE = 86400000
local LIMIT_MARK = 1099511627776
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK
  return kept - raised, raised
end
local function raise_for(concurrency) return concurrency >= 0 and 2 * LIMIT_MARK or LIMIT_MARK end
local limits = prefix .. 'limits'
local function parse_limit(topic, text)
  if not text then return nil end
  if type(text) == 'table' then return nil, text end
  local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  interval = tonumber(interval)
  if not interval then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
  return tonumber(concurrency), interval, tonumber(burst), tonumber(next), tonumber(appointed), whole
end
local function stands_before(a, b)
  for i = 1, math.min(#a, #b) do
    local of_a, of_b = string.byte(a, i), string.byte(b, i)
    if of_a ~= of_b then return of_a < of_b end
  end
  return #a < #b
end
local function entries_before(set, score, id)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('ZRANGE', set, middle, middle)[1]
    if stands_before(entry, id) then low = middle + 1 else high = middle end
  end
  return low
end
local function page_after(set, score, id)
  return score == '' and 0 or entries_before(set, score, id .. '\0')
end
local known_topics = prefix .. 'topics'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local topics_due = prefix .. 'topics_due'
local once = prefix .. 'once'
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local pushed_topics = prefix .. 'pushed_topics'
local USED_EACH = 60
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local IDLE = 3600         -- s; a topic with nothing is forgotten if it was not used for that long
local STEP = 50           -- entries read at a time behind one without a job
local OVER = 500          -- IDs whose time is over, removed at a time
local MAX_WALK, WALKED = 10000, 50 -- WALKED entries that are walked over cost as much as one that is read
local most, entries_left = tonumber(ARGV[1]), tonumber(ARGV[2])
local pcall = redis.pcall

-- Whether the ID is in the topic's queue, as far as it is searched.
local function is_queued(topic, id)
  for _, queue in ipairs({queues .. topic, parked_queues .. topic}) do
    local length = pcall('LLEN', queue)
    if type(length) == 'number' and length > 0 then
      entries_left = entries_left - math.floor(math.min(length, MAX_WALK) / WALKED)
      if type(pcall('LPOS', queue, id, 'MAXLEN', MAX_WALK)) == 'number' then return true end
    end
  end
  return false
end

-- Redis deletes a job at the end of its lifetime, with its body, so it is buried before: in the last FRACTION of its lifetime, EARLY ms at
-- most. The lifetime of a job without options is unknown, as it may be one of the original's clients. It is buried in its last LATE ms, if a
-- consumer of ours has reserved it or clients of ours push to its topic (is_ours), else it is left to expire. So is one whose burial fails.
local FRACTION, EARLY, LATE, BURIED = 1 / 20, 600000, 120000, 20

-- Makes a dead letter of the topic's job if it is about to expire. Returns whether it did.
local function bury_expiring(id, topic, is_ours)
  local name = buckets .. id
  local ttl = pcall('PTTL', name)
  if type(ttl) ~= 'number' or ttl < 0 or ttl > EARLY then return false end
  local job = pcall('HMGET', name, 'options', 'lease')
  if job.err or not (is_ours or job[1] or job[2]) then return false end
  local reason, early = 'expired: nobody took it', LATE
  if job[1] then
    local _, _, lifetime = read_options(job[1])
    local days = lifetime / 86400000
    reason = reason .. ' within ' .. (days >= 1 and string.format('%.4gd', days) or string.format('%.4gm', days * 1440))
    early = lifetime * FRACTION
  end
  if ttl > early then return false end
  local dead_topics = prefix .. 'dead_topics'
  local function unlist(topic, id)
    local list = dead_lists .. topic
    redis.pcall('ZREM', list, id)
    if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
  end
  local function bury(id, bucket, topic, reason, text, has_follower)
    local letter, list = dead_letters .. id, dead_lists .. topic
    if has_follower then
      local function not_followable(id, from)
        local name = buckets .. id
        return not_permitted('TIME') or not_permitted('HMGET', from, 'next') or not_permitted('PTTL', from)
          or not_permitted('HDEL', from, 'next') or not_permitted('HSET', name, 'topic', '')
          or not_permitted('HDEL', name, 'lease') or not_permitted('PEXPIRE', name, '1') or not_permitted('DEL', name)
          or not_permitted('ZADD', pool, '0', '') or not_permitted('ZREM', pool, '')
      end
      local IN_CLUSTER = false
      local function elsewhere(key)
        local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
        return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
      end
      local err = not_followable(id, letter) or elsewhere(buckets)
      if err then return err end
    end
    local was = redis.pcall('HGET', letter, 'topic')
    local listed = redis.pcall('ZADD', list, string.format('%d', now), id)
    if type(listed) == 'table' then
      return redis.error_reply(listed.err .. ' (dead letters ' .. list .. ')')
    end
    local renamed = redis.pcall('RENAME', bucket, letter)
    if renamed.err then
      if was ~= topic then unlist(topic, id) end
      return redis.error_reply(renamed.err .. ' (RENAME to ' .. dead_letters .. '…)')
    end
    if type(was) == 'string' and was ~= topic then unlist(was, id) end
    redis.pcall('HSET', letter, 'reason', reason, 'died', string.format('%d', now))
    if text ~= '' then redis.pcall('HSET', letter, 'error', text) end
    redis.pcall('PERSIST', letter)
    redis.pcall('ZADD', dead_topics, 'NX', string.format('%d', now), topic)
  end
  local function read_lease(text)
    if not text then return 0, 0, 0, 0 end
    local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
    return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
  end
  local CLOCK_SLACK = 500
  local function pushed_again(ttl, expires)
    return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
  end
  local function score_of(ms)
    local rest = ms % 1000
    if rest == 0 then return string.format('%d', ms / 1000) end
    return string.format('%d.%03d', (ms - rest) / 1000, rest)
  end
  local ANNOUNCED_WITHIN = 60000
  local first_due_channel = prefix .. 'first_due'
  local function announce(score, wait)
    if wait > ANNOUNCED_WITHIN then return end
    local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
    local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
    if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
  end
  local SOON = 1800
  local function register_use(topic, seconds, due)
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
    if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
  end
  local function register_push(topic, seconds, due)
    register_use(topic, seconds, due)
    redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
  end
  local function follow_up(id, from)
    local name = buckets .. id
    local follower = redis.call('HMGET', from, 'next', 'next_body', 'lease')
    local due, length, rest = string.match(follower[1] or '', '^(%d+) (%d+) (.*)$')
    local _, _, _, expires = read_lease(follower[3])
    if not due or pushed_again(redis.call('PTTL', from), expires) then
      redis.call('DEL', name)
      redis.call('ZREM', pool, id)
      return
    end
    due = tonumber(due)
    length = tonumber(length)
    local topic, options = string.sub(rest, 1, length), string.sub(rest, length + 1)
    local _, _, lifetime = read_options(options)
    redis.call('HSET', name, 'topic', topic, 'body', follower[2] or '', 'options', options)
    redis.call('HDEL', name, 'lease', 'error', 'first', 'next', 'next_body', options == '' and 'options' or 'error')
    if from ~= name then redis.call('HDEL', from, 'next', 'next_body') end
    redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
    local waiting = due <= begun and redis.pcall('LPUSH', queues .. topic, id)
    if type(waiting) == 'number' then
      redis.call('ZREM', pool, id)
      wake(topic, waiting)
    else
      redis.call('ZADD', pool, score_of(math.max(due, now)), id)
      announce(score_of(math.max(due, now)), math.max(due - now, 0))
    end
    register_push(topic, now / 1000, due / 1000)
  end
  if pcall('PERSIST', name) ~= 1 then return false end -- the first write; after it, Redis refuses nothing at maxmemory
  local followed = has_follower(job[2])
  if bury(id, name, topic, reason, '', followed) then
    pcall('PEXPIRE', name, ttl)
    return false
  end
  if followed then follow_up(id, dead_letters .. id) end
  entries_left = entries_left - BURIED
  return true
end

local some_paused = pcall('EXISTS', pauses) == 1

-- Drops entries without a job from the end of the topic's queue or, if it is paused, of its parked jobs, and adds IDs that have no job to
-- gone. Jobs that are about to expire become dead letters, and are added to buried. Returns whether that is done; or an error reply.
local function sweep(topic, is_ours, gone, buried)
  local queue, count = queues .. topic, 1
  if some_paused and pcall('EXISTS', queue) == 0 then queue = parked_queues .. topic end
  while entries_left > 0 do
    local ids = pcall('LRANGE', queue, -count, -1)
    if ids.err or #ids == 0 then return unreadable(ids) and ids or true end
    local waits = redis.call('ZMSCORE', pool, unpack(ids))
    local found, misrouted, used, more = {}, {}, 0, #ids == count
    for i = #ids, 1, -1 do
      local id, owner = ids[i], not waits[i] and pcall('HGET', buckets .. ids[i], 'topic')
      local expires = owner == topic and bury_expiring(id, topic, is_ours)
      if owner == topic and not expires or unreadable(owner) then
        more = false
        break
      end
      if expires then
        buried[#buried + 1] = id
      elseif waits[i] then
        -- it will be ready again
      elseif type(owner) ~= 'string' then
        found[#found + 1] = id
      elseif not is_queued(owner, id) then
        misrouted[#misrouted + 1] = {id, owner}
      end
      used, entries_left = used + 1, entries_left - 1
      if entries_left <= 0 then
        more = true
        break
      end
    end
    local popped = used > 0 and pcall('RPOP', queue, used)
    if type(popped) == 'table' and popped.err then return popped end
    for _, id in ipairs(found) do gone[#gone + 1] = id end
    for _, entry in ipairs(misrouted) do pass_on(entry[1], entry[2]) end
    if not more then return true end
    count = STEP
  end
  return false
end

-- Whether the topic has anything. A key that can't be read counts.
local function has_something(topic, count, limit, due)
  if count > 0 or limit or due and due - now_s > 0 then return true end
  return pcall('EXISTS', queues .. topic, parked_queues .. topic, dead_lists .. topic) ~= 0
    or some_paused and pcall('HGET', pauses, topic) ~= false
end

-- The numbers of reserved jobs, none below 0 or above what the pool can have: leases end within MAX_LEASE. Those of topics with a limit are
-- raised.
local function reserved_of(names, has_limit)
  local counts = pcall('HMGET', reserved_counts, unpack(names))
  if counts.err or has_limit.err then
    for k = 1, #names do counts[k] = 1 end
    return counts
  end
  local leases = redis.call('ZCOUNT', pool, '-inf', string.format('%d', now_s + MAX_LEASE / 1000 + 1))
  for k, name in ipairs(names) do
    local kept = tonumber(counts[k] or 0) or 0
    local count, raised = lowered(kept)
    local right = math.min(math.max(count, 0), leases)
    if not has_limit.err then raised = has_limit[k] and raise_for(parse_limit(name, has_limit[k]) or -1) or 0 end
    local keep = raised + right
    if counts[k] and keep == 0 then
      pcall('HDEL', reserved_counts, name)
    elseif keep ~= kept then
      pcall('HSET', reserved_counts, name, string.format('%.0f', keep))
    end
    counts[k] = right
  end
  return counts
end

local first = page_after(known_topics, ARGV[3], ARGV[4])
local page = redis.call('ZRANGE', known_topics, first, first + most - 1, 'WITHSCORES')
local err = not_permitted('RPOP', queues, '1') or not_permitted('LRANGE', queues, '0', '0') or not_permitted('ZREM', known_topics, '')
  or not_permitted('ZMSCORE', pool, '') or not_permitted('ZCOUNT', pool, '0', '0') or not_writable()
if err then return err end
local past = redis.call('ZRANGEBYSCORE', topics_due, '-inf', string.format('%d', now_s), 'LIMIT', 0, most)
if #past > 0 then redis.call('ZREM', topics_due, unpack(past)) end
local over = pcall('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
if #over > 0 then pcall('ZREM', once, unpack(over)) end

local reply = {(#page == 2 * most or #over == OVER) and 1 or 0, ARGV[3], ARGV[4], 0, {}, {}}
local names = {}
for i = 1, #page, 2 do names[#names + 1] = page[i] end
local has_limit = #names > 0 and pcall('HMGET', limits, unpack(names))
local counts = #names > 0 and reserved_of(names, has_limit)
local dues = #names > 0 and redis.call('ZMSCORE', topics_due, unpack(names))
local pushed = #names > 0 and pcall('ZMSCORE', pushed_topics, unpack(names)) -- when clients of ours registered; an error has no topic
for k, topic in ipairs(names) do
  local score, gone, buried = page[2 * k], {}, {}
  local done = sweep(topic, pushed[k], gone, buried)
  if #buried > 0 then table.insert(reply[6], topic) table.insert(reply[6], buried) end
  if #gone > 0 then reply[#reply + 1], reply[#reply + 2] = topic, gone end
  if type(done) == 'table' then
    if k == 1 and #reply == 6 and #reply[6] == 0 then return done end
    done = true
  end
  if not done then
    reply[1] = 1
    break
  end
  reply[2], reply[3] = score, topic
  local excludes = has_limit[k] and string.find(has_limit[k], '^0 ')
  if excludes and pcall('EXISTS', queues .. topic, parked_queues .. topic) ~= 0 then table.insert(reply[5], topic) end
  if now_s - score > IDLE then
    if has_something(topic, counts[k], has_limit[k], dues[k]) then
      pcall('ZADD', known_topics, 'XX', used_at(now_s), topic)
    else
      redis.call('ZREM', known_topics, topic)
      pcall('ZREM', pushed_topics, topic)
      reply[4] = reply[4] + 1
    end
  end
end
return reply
