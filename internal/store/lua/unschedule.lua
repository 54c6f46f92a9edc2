-- unschedule: deletes a schedule. Its jobs stay.
--
-- KEYS[1] job pool
-- ARGV[1] its name   ARGV[2] the source that it must have; '' for any: it is removed by hand, and one with a source is then remembered, to
--   tell it from one that Redis has lost
-- Returns 1, or 0 if there is no such schedule. Errors: WRONGTYPE of the bucket, NOPERM. Nothing has changed then.
-- Atomic because a server may fire it meanwhile. Cost: O(log n) of the pool.
-- include: guard schedule cluster
local id = schedule_id(ARGV[1])
local s = redis.call('HMGET', buckets .. id, 'topic', 'revision', 'source')
if s[1] and (s[1] ~= SCHEDULE_TOPIC or not s[2]) or ARGV[2] ~= '' and s[3] ~= ARGV[2] then return 0 end
local by_hand = ARGV[2] == '' and s[3] and s[3] ~= ''
local err = not_permitted('ZREM', pool, id) or not_permitted('ZREM', schedules, ARGV[1])
  or by_hand and not_permitted('ZADD', removed_schedules, '0', '') or elsewhere(buckets)
if err then return err end
local deleted = redis.call('DEL', buckets .. id)
redis.call('ZREM', pool, id)
redis.call('ZREM', schedules, ARGV[1])
if by_hand then redis.call('ZADD', removed_schedules, 0, ARGV[1]) end
return deleted
