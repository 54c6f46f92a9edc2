-- fire: stores the jobs of schedules that are due, and sets their next occurrences.
local pool = KEYS[1]
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local IN_CLUSTER = false
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local queues = prefix .. 'ready_queue:'
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
local SCHEDULE_TOPIC = 'delayer:schedules'
local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end
local function no_queue(topic)
  return not_a_list(queues .. topic, true) or not_permitted('LPUSH', queues .. topic, '')
end
local function no_bucket(bucket)
  return not_permitted('PEXPIRE', bucket, '1') or not_permitted('HSET', bucket, 'topic', '') or not_permitted('EXISTS', bucket)
end
local OVERLAP_FOLLOW = 'follow'
local RAN = 'r'
local OVERLAP_ALLOW = 'allow'
local DEFAULT_LIFETIME = 604800000
local DEFAULT_OPTIONS = '0 0 604800000'
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function store_bucket(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return false end
  local lifetime = DEFAULT_LIFETIME
  if not options or options == DEFAULT_OPTIONS then
    redis.call('HSET', name, 'topic', topic, 'body', content)
  else
    redis.call('HSET', name, 'topic', topic, 'body', content, 'options', options)
    lifetime = tonumber(string.match(options, '^%d+ %d+ (%d+)')) or lifetime
  end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  return true
end
local OVERLAPPED = 'o'
local REMEMBERED = 10
local function remember(past, occurrences)
  if #occurrences == 0 then return past or '' end
  local text = table.concat(occurrences, ' ')
  if past and past ~= '' then text = past .. ' ' .. text end
  local begins, at = {1}, string.find(text, ' ', 1, true)
  while at do
    begins[#begins + 1], at = at + 1, string.find(text, ' ', at + 1, true)
  end
  return string.sub(text, begins[math.max(#begins - REMEMBERED + 1, 1)])
end
local function stopwatch()
  local os = rawget(_G, 'os')
  if os then
    local start = os.clock()
    return function() return math.floor((os.clock() - start) * 1000000) end
  end
  local start = redis.call('TIME')
  return function()
    local stop = redis.call('TIME')
    return (stop[1] - start[1]) * 1000000 + stop[2] - start[2]
  end
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
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
local FIELDS = {'topic', 'revision', 'next', 'to', 'content', 'overlap', 'options', 'last', 'past', 'ran'}
local CHUNK = 1000 -- arguments of one command
local probe = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
local is_full = type(probe) == 'table' and string.find(probe.err, 'OOM ', 1, true)
local err = type(probe) == 'table' and not is_full and probe or not_permitted('ZREM', pool, '')
if err then return err end
if IN_CLUSTER then
  local function elsewhere(key)
    local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
    return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
  end
  local at = 3
  while not err and at < #ARGV do
    local s = redis.pcall('HMGET', buckets .. ARGV[at], 'to', 'last')
    err = elsewhere(buckets .. ARGV[at]) or s[1] and elsewhere(queues .. s[1]) or s[2] and elsewhere(buckets .. s[2])
    for i = at + 8, at + 4 + 4 * ARGV[at + 7], 4 do err = err or elsewhere(buckets .. ARGV[i + 2]) end
    at = at + 8 + 4 * ARGV[at + 7]
  end
  if err then return err end
end

-- What is written for all schedules together, at the end.
local entries, soonest = {}, math.huge -- of the pool: score, ID, score, ID, …; when the first of them is due
local ready, used = {}, {}             -- of each topic: the IDs of jobs that are due; until when it is used
local function put(id, due)
  entries[#entries + 1], entries[#entries + 2], soonest = score_of(due), id, math.min(soonest, due)
end

local retried = 0
local function defer(id, why)
  redis.call('ZREM', pool, id) -- first: a script that has written is not refused at maxmemory
  redis.call('ZADD', pool, retry_score(tonumber(ARGV[1]), retried), id)
  retried = retried + 1
  return {2, why}
end

local refused = {} -- why a topic's queue can't be used, false if it can
local may_store, lease_of, follow

local function fire(id, score, revision, read, upcoming, late, paused, has_old, first, last_place)
  local bucket = buckets .. id
  if not score or score - now_s > 0 then return {0} end
  local s = redis.pcall('HMGET', bucket, unpack(FIELDS))
  if s.err then return defer(id, s.err) end
  if s[1] ~= SCHEDULE_TOPIC or s[2] ~= revision then return {0} end
  if upcoming == 'later' then return defer(id, '') end
  if s[3] ~= read then return {0} end
  if not s[4] or not s[5] then return defer(id, 'ERR the schedule says nothing of its jobs (job bucket ' .. bucket .. ')') end
  local topic, content, overlap, options, last = s[4], s[5], s[6], s[7], s[8]
  if refused[topic] == nil then refused[topic] = no_queue(topic) or false end
  local why_not = refused[topic] or may_store and not_permitted('HSET', bucket, 'topic', '') or not may_store and no_bucket(bucket)
  may_store = may_store or not why_not
  local lease
  if overlap == OVERLAP_FOLLOW and not why_not then
    if not follow then
      local function unreadable(reply)
        return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
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
      local function lease_of_last(last)
        local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
        if unreadable(job) then return job end
        if not job or not job[1] then return nil end
        local _, _, _, expires = read_lease(job[1])
        local err = not_permitted('PTTL', buckets .. last)
        if not err and pushed_again(redis.call('PTTL', buckets .. last), expires) then return nil end
        return err or job[1]
      end
      local function read_options(text)
        if not text then return 0, 0, DEFAULT_LIFETIME, '' end
        local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
        return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
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
      local function follow_last(last, lease, topic, content, options, due)
        local own = redis.call('HMGET', buckets .. last, 'options')[1]
        local _, _, lifetime = read_options(options)
        store_follower(buckets .. last, lease, own, topic, content, due, lifetime, options ~= DEFAULT_OPTIONS and options or '')
        return mark_follower(lease), not has_follower(lease)
      end
      lease_of, follow = lease_of_last, follow_last
    end
    lease = lease_of(last)
    why_not = type(lease) == 'table' and lease
  end
  if why_not or is_full then return defer(id, (why_not or probe).err) end

  local ran, overlapped, followed, occurrences = 0, 0, '', {}
  for i = first, last_place, 4 do
    local at, what, job, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
    if what == RAN then
      local is_busy = overlap ~= OVERLAP_ALLOW and last and redis.call('EXISTS', buckets .. last) == 1
      local has_job
      if not is_busy then
        has_job, last = store_bucket(job, topic, content, options, due), job
        if has_job and due <= begun then
          ready[topic] = ready[topic] or {}
          ready[topic][#ready[topic] + 1] = job
        elseif has_job then
          put(job, due)
        end
        if has_job then used[topic] = math.max(used[topic] or now, due) end
      elseif lease then
        lease, has_job = follow(last, lease, topic, content, options, due) -- false if it replaces another follower
        followed = last
      end
      if has_job then ran = ran + 1 end
      if is_busy and not has_job then what, overlapped = OVERLAPPED, overlapped + 1 end
    end
    occurrences[#occurrences + 1] = at .. what .. string.format('%d', math.max(now - at, 0))
  end
  local fields = {'next', upcoming, 'past', remember(s[9], occurrences), 'last', last or ''}
  if ran > 0 then fields[7], fields[8] = 'ran', string.format('%d', (tonumber(s[10]) or 0) + ran) end
  if has_old == '1' then fields[#fields + 1], fields[#fields + 2] = 'old', '' end
  redis.call('HSET', bucket, unpack(fields))
  if overlapped > 0 then redis.pcall('HINCRBY', bucket, 'overlapped', overlapped) end
  if late ~= '0' then redis.pcall('HINCRBY', bucket, 'late', late) end
  if paused ~= '0' then redis.pcall('HINCRBY', bucket, 'paused_out', paused) end
  if upcoming ~= '' then put(id, tonumber(upcoming)) else redis.call('ZREM', pool, id) end
  return {1, ran, overlapped, followed}
end

local ids, places = {}, {}
local place = 3
while place < #ARGV do
  ids[#ids + 1], places[#places + 1] = ARGV[place], place
  place = place + 8 + 4 * ARGV[place + 7]
end
local scores = redis.call('ZMSCORE', pool, unpack(ids))
local reply, took = {''}, #ids > 1 and stopwatch()
for i, id in ipairs(ids) do
  if i % 4 == 0 and took() > tonumber(ARGV[2]) then break end
  local _, revision, read, upcoming, late, paused, has_old, count = unpack(ARGV, places[i], places[i] + 7)
  local first = places[i] + 8
  reply[i + 1] = fire(id, scores[i], revision, read, upcoming, late, paused, has_old, first, first + 4 * count - 1)
end
for i = 1, #entries, CHUNK do redis.call('ZADD', pool, unpack(entries, i, math.min(i + CHUNK - 1, #entries))) end
if soonest < math.huge then announce(score_of(soonest), math.max(soonest - now, 0)) end
for topic, until_ms in pairs(used) do register_push(topic, now / 1000, until_ms / 1000) end
for topic, jobs in pairs(ready) do
  local length
  for i = 1, #jobs, CHUNK do length = redis.call('LPUSH', queues .. topic, unpack(jobs, i, math.min(i + CHUNK - 1, #jobs))) end
  local woken, cant_publish = wake(topic, length)
  if woken or reply[1] == '' then reply[1] = woken and 'woken' or cant_publish or '' end
end
return reply
