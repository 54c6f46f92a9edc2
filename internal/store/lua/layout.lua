-- layout: tells how many partitions the jobs are divided into, and keeps it if that is not known yet.
--
-- KEYS[1] the hash of that, in partition 0
-- ARGV[1] how many there are by the caller; 0 if he only asks
--
-- Returns {partitions, before}, 0 for what is not known.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- Atomic so that of two who come first with different numbers one is refused.
-- Cost: O(1).
local kept = redis.call('HMGET', KEYS[1], 'partitions', 'before')
if not kept[1] and ARGV[1] ~= '0' then
  redis.call('HSET', KEYS[1], 'partitions', ARGV[1])
  kept[1] = ARGV[1]
end
return {kept[1] or 0, kept[2] or 0}
