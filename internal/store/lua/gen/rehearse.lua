-- rehearse: checks whether this user may do what a server does. It changes nothing.
local pool = KEYS[1]
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local wake_channels = prefix .. 'wake:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local queues = prefix .. 'ready_queue:'
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
local parked_queues = prefix .. 'paused_queue:'
local pauses = prefix .. 'paused'
local reserved_counts = prefix .. 'reserved'
local schedules = prefix .. 'schedules'
local queue, bucket = KEYS[2], KEYS[3]
local MOVING = {{'ZADD', pool, '0', 'a'}, {'ZCOUNT', pool, '0', '0'}, {'ZRANGE', pool, '0', '0'}, {'ZMSCORE', pool, 'a'}, {'ZREM', pool, 'a'},
  {'HGET', bucket, 'a'}, {'LPUSH', queue, ''}}
local cant_move = redis.pcall('TIME').err and 'NOPERM this user has no permissions to run TIME'
for _, call in ipairs(MOVING) do
  local err = not_permitted(unpack(call))
  if err then cant_move = cant_move and cant_move .. ', nor ' .. call[1] or err.err end
end
if cant_move then return redis.error_reply(cant_move) end
redis.call('ZREM', pool, ARGV[1])
local published = redis.pcall('PUBLISH', wake_channels .. ARGV[1], '')
local why = type(published) == 'table' and published.err
if not why then
  local _, cant_publish = wake(ARGV[1], 0)
  why = cant_publish or ''
end

local parked, waits = parked_queues .. ARGV[1], waiters .. ARGV[1]
local FEATURES = {
  {'scripts after a restart of Redis', {'EVAL', 'return 0', '0'}},
  {'heartbeats and statistics', {'EXISTS', bucket}, {'HLEN', bucket}, {'HSET', bucket, 'a', ''}, {'HDEL', bucket, 'a'}, {'HRANDFIELD', bucket, '1'},
    {'HSTRLEN', bucket, 'a'}, {'GET', bucket}, {'PEXPIRE', bucket, '1'}},
  {'cleaning', {'LPOS', queue, 'a'}, {'LRANGE', queue, '0', '0'}, {'LLEN', queue}, {'RPOP', queue}, {'HMGET', bucket, 'a'},
    {'ZRANGEBYSCORE', waits, '0', '0'}, {'DEL', bucket}},
  {'dead letters of jobs that expire', {'PERSIST', bucket}},
  {'paused topics', {'HLEN', pauses}, {'HSCAN', pauses, '0'}, {'HSET', waits, 'a', ''}, {'HDEL', pauses, 'a'}, {'DEL', waits},
    {'TYPE', waits}, {'LLEN', queue}, {'LMOVE', queue, parked, 'RIGHT', 'LEFT'}, {'RENAME', queue, parked}},
  {'limits', {'HINCRBY', reserved_counts, 'a', '1'}, {'LLEN', queue}},
  {'schedules', {'ZRANGE', schedules, '0', '0'}, {'EXISTS', bucket}, {'HMGET', bucket, 'a'}, {'HSET', bucket, 'a', ''},
    {'HINCRBY', bucket, 'a', '1'}, {'PEXPIRE', bucket, '1'}, {'TYPE', queue}},
  {'schedules with the overlap follow', {'PTTL', bucket}},
  {'schedules of delayer.conf', {'ZSCORE', pool, 'a'}},
}
local info = not not_permitted('INFO', 'memory') and redis.pcall('INFO', 'memory')
local reply = {why, type(info) == 'string' and string.match(info, 'maxmemory_policy:([%w-]+)') or ''}
for _, feature in ipairs(FEATURES) do
  for i = 2, #feature do
    if not_permitted(unpack(feature[i])) then reply[#reply + 1], reply[#reply + 2] = feature[1], feature[i][1] end
  end
end
return reply
