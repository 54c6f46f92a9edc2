-- requeue: makes dead letters ready jobs again, with all their attempts.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local dead_letters = prefix .. 'dead_letter:'
local NOT_FOUND = 8
local ALREADY_EXISTS = 0
local queues = prefix .. 'ready_queue:'
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
end
local dead_lists = prefix .. 'dead_letters:'
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
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
local function wake_all()
  for topic, length in pairs(lengths) do wake(topic, length) end
end
local FIRST = 2
local lifetime, first_bucket = ARGV[1], buckets .. ARGV[FIRST]
local err = not_permitted('ZREM', pool, '') or not_permitted('PEXPIRE', first_bucket, '1')
  or not_permitted('HDEL', first_bucket, 'lease') or not_permitted('HSET', first_bucket, 'options', '')
  or elsewhere(buckets) -- what is told of one job is not tried again, the call is
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local function requeue(id)
  local letter, name = dead_letters .. id, buckets .. id
  local topic = redis.pcall('HGET', letter, 'topic')
  if type(topic) == 'table' then return topic.err end
  if not topic then return NOT_FOUND end
  if redis.call('EXISTS', name) == 1 then return ALREADY_EXISTS end
  local renamed = redis.pcall('RENAME', letter, name)
  if renamed.err then return renamed.err end
  local refused = make_ready(topic, id)
  if refused then
    redis.call('RENAME', name, letter)
    return refused.err .. ' (ready queue ' .. queues .. topic .. ')'
  end
  redis.call('ZREM', pool, id) -- an entry that was without a job
  unlist(topic, id)
  redis.call('HDEL', name, 'lease', 'reason', 'died', 'error', 'first')
  local options = redis.call('HGET', name, 'options')
  if options then redis.call('HSET', name, 'options', (string.gsub(options, '^%+?(%d+ %d+) %d+', '%1 ' .. lifetime))) end
  redis.call('PEXPIRE', name, lifetime)
end

local reply = {}
for i = FIRST, #ARGV do
  local why = requeue(ARGV[i])
  if why then
    reply[#reply + 1], reply[#reply + 2] = i - FIRST + 1, why
  end
end
wake_all()
return reply
