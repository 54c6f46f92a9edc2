-- layout: stores how many partitions there are, unless that is stored already.
--
-- KEYS[1] partition 0's layout   ARGV[1] the caller's number of partitions
-- Returns the number that is stored. Errors: WRONGTYPE, NOPERM. Nothing has changed then.
-- Atomic so that of two first callers with different numbers one is refused. Cost: O(1).
local kept = redis.call('HGET', KEYS[1], 'partitions')
if kept then return kept end
redis.call('HSET', KEYS[1], 'partitions', ARGV[1])
return ARGV[1]
