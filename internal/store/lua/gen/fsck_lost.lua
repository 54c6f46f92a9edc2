-- fsck_lost: finds jobs that are in no state, and returns them to their topics or deletes them if asked to.
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
local LOST_LOOK = 'look'
local pool = KEYS[1]
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local buckets = prefix .. 'job_bucket:'
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
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
local parked_queues = prefix .. 'paused_queue:'
local CLOCK_SLACK = 500
local LOST_REQUEUE = 'requeue'
local LOST_DROP = 'drop'
local once = prefix .. 'once'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
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
local function wake_all()
  for topic, length in pairs(lengths) do wake(topic, length) end
end
local FIRST = 2
local ENDS = 5000
local watch, what = stopwatch(), ARGV[1]
if what ~= LOST_LOOK then
  local err = not_writable() or all_unreadable() or not_permitted('LPUSH', queues, '') or not_permitted('DEL', buckets)
    or elsewhere(buckets)
  if err then return err end
end

local function is_at_end(queue, id)
  for _, rank in ipairs({1, -1}) do
    if type(redis.pcall('LPOS', queue, id, 'RANK', rank, 'MAXLEN', ENDS)) == 'number' then return true end
  end
  return false
end

local function requeue(id, topic)
  if make_ready(topic, id) then redis.call('ZADD', pool, score_of(now), id) end -- the server reports a broken queue
  register_use(topic, now_s, 0)
end

local reply = {watch()}
for i = FIRST, #ARGV, 3 do
  local id = ARGV[i]
  local key = buckets .. id
  local job = redis.pcall('HMGET', key, 'topic', 'lease', 'first')
  local topic = not job.err and job[1]
  if topic and not redis.call('ZSCORE', pool, id) and not is_at_end(queues .. topic, id) and not is_at_end(parked_queues .. topic, id) then
    local left = redis.call('PTTL', key)
    local expires = left < 0 and -1 or now + left
    local fingerprint = redis.sha1hex(table.concat({topic, job[2] or '', job[3] or '', redis.call('HSTRLEN', key, 'body')}, ' '))
    local was = tonumber(ARGV[i + 1])
    local is_same = ARGV[i + 2] == fingerprint and math.abs(expires - was) <= CLOCK_SLACK
    if ARGV[i + 2] == '' or is_same then
      local n, repaired = #reply, is_same and what ~= LOST_LOOK
      if repaired and what == LOST_REQUEUE then requeue(id, topic) end
      if repaired and what == LOST_DROP then
        redis.call('DEL', key)
        redis.pcall('ZREM', once, id)
      end
      reply[n + 1], reply[n + 2], reply[n + 3] = id, topic, string.format('%.0f', expires)
      reply[n + 4], reply[n + 5] = fingerprint, repaired and 1 or 0
    end
  end
end
wake_all()
reply[1] = watch()
return reply
