-- layout: reads how many partitions there are, and stores the caller's number if there is none.
--
-- KEYS[1] partition 0's layout   ARGV[1] the caller's number of partitions; 0: only read
-- Returns the number that is stored, 0 for none. Errors: WRONGTYPE, NOPERM. Nothing has changed then.
-- Atomic so that of two first callers with different numbers one is refused. Cost: O(1).
local kept = redis.call('HGET', KEYS[1], 'partitions')
if not kept and ARGV[1] ~= '0' then
  kept = ARGV[1]
  redis.call('HSET', KEYS[1], 'partitions', kept)
end
return kept or '0'
