-- limit: sets or removes a topic's limit.
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local limits = prefix .. 'limits'
local slots = prefix .. 'slots:'
local reserved_counts = prefix .. 'reserved'
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local LIMIT_MARK = 1099511627776
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK
  return kept - raised, raised
end
local function parse_limit(topic, text)
  if not text then return nil end
  if type(text) == 'table' then return nil, text end
  local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  interval = tonumber(interval)
  if not interval then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
  return tonumber(concurrency), interval, tonumber(burst), tonumber(next), tonumber(appointed), whole
end
local function read_limit(topic) return parse_limit(topic, redis.pcall('HGET', limits, topic)) end
local throttled_waiters = prefix .. 'throttled_waiters:'
local waiters = prefix .. 'waiters:'
local paused_waiters = prefix .. 'paused_waiters:'
local WAITING_FOR = 3600000
local function end_throttling(topic)
  local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
  if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
  for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
  if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
end
local queues = prefix .. 'ready_queue:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
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
local function write_limit(topic, concurrency, interval, burst, next, appointed, whole)
  local text = string.format('%d %.17g %d %.0f %.0f ', concurrency, interval, burst, next, appointed) .. whole
  return redis.pcall('HSET', limits, topic, text)
end
--
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function raise_for(concurrency) return concurrency >= 0 and 2 * LIMIT_MARK or LIMIT_MARK end
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
local now_s = now_us / 1000000
local function wake_throttled(topic)
  if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if jobs == 0 then
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
local topic = ARGV[1]
local err = not_permitted('HSET', limits, topic, '') or not_permitted('HDEL', limits, topic) or not_permitted('DEL', slots .. topic)
  or not_permitted('HSET', reserved_counts, topic, '0') or not_permitted('HDEL', reserved_counts, topic)
  or elsewhere(slots)
if err then return err end
local count = math.max(lowered(tonumber(redis.call('HGET', reserved_counts, topic) or 0) or 0), 0)
local before, _, _, next = read_limit(topic)

if ARGV[2] == '' then
  redis.call('HDEL', limits, topic)
  if count > 0 then
    redis.call('HSET', reserved_counts, topic, string.format('%.0f', count))
  else
    redis.call('HDEL', reserved_counts, topic)
  end
  redis.call('DEL', slots .. topic)
  end_throttling(topic)
  local length = redis.pcall('LLEN', queues .. topic)
  if type(length) == 'number' and length > 0 then wake(topic, length) end
  return 1
end

local concurrency, interval = tonumber(ARGV[2]), tonumber(ARGV[3])
local written = write_limit(topic, concurrency, interval, ARGV[4], before and math.min(next, now_us + interval) or 0, 0, ARGV[5])
if type(written) == 'table' then return written end
redis.call('HSET', reserved_counts, topic, string.format('%.0f', raise_for(concurrency) + count))
register_use(topic, now_s, now_s)
if concurrency < 0 then redis.call('DEL', slots .. topic) end
wake_throttled(topic)
return 1
