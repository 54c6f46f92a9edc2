-- layout: tells how many partitions the jobs are divided into, and how many they were divided into before, and keeps the
-- caller's numbers if they may follow.
--
-- KEYS[1] the hash of that, in partition 0
-- ARGV[1] how many there are by the caller   ARGV[2] how many there were before by the caller, 0 if none are left of those
-- ARGV[3] 'enter'; 'ask': nothing changes; 'done': none are left of those before
--
-- Returns {partitions, before} as they are kept now, 0 for what is not known.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- Atomic so that of two who come first with different numbers one is refused.
-- Cost: O(1).
local kept = redis.call('HMGET', KEYS[1], 'partitions', 'before')
local partitions, before = kept[1] or '0', kept[2] or '0'
local function keep(new_partitions, new_before)
  redis.call('HSET', KEYS[1], 'partitions', new_partitions)
  if new_before == '0' then redis.call('HDEL', KEYS[1], 'before') else redis.call('HSET', KEYS[1], 'before', new_before) end
  partitions, before = new_partitions, new_before
end
local is_first, follows = partitions == '0', before == '0' and ARGV[2] == partitions
if ARGV[3] == 'enter' and (is_first or follows) then
  keep(ARGV[1], ARGV[2])
elseif ARGV[3] == 'done' and partitions == ARGV[1] and before == ARGV[2] then
  keep(partitions, '0')
end
return {partitions, before}
