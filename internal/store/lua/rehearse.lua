-- rehearse: checks whether this user may do what a server does. It changes nothing.
--
-- KEYS[1] job pool   KEYS[2] a ready queue   KEYS[3] a bucket
-- ARGV[1] the topic of that queue, and the ID of that bucket; both are unused
-- Returns {why, policy, feature, command, feature, command, …}: why no client can be woken, '' if one can; the maxmemory-policy, '' if this
-- user may not know it; and which features lack which commands, as far as Redis reports that, from 7.0 on.
-- Errors: NOPERM, with all commands that moving lacks from 7.0 on, before it not for LPUSH; CROSSSLOT on a cluster's node if the prefix has no
-- tag. (A move does not declare its queue, so it would still work where one node has all slots; a pop would not.)
-- Cost: O(1).
-- include: guard queue
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
