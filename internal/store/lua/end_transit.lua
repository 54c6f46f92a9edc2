-- end_transit: deletes a batch in transit that the other partitions have adopted.
--
-- KEYS[1] job pool
-- ARGV[1] the batch's serial number   ARGV[2] the last number that one of these partitions has adopted
-- Returns 1; 0 if that batch is gone; -1 if the batch has got a new number and must be adopted again: ARGV[2] was above its number, because
-- this partition has lost numbers in a failover and its clock is behind. Whether the batch was adopted is then unknown.
-- Errors: NOPERM, READONLY. Nothing has changed then.
-- Atomic because another batch may be in transit by now.
-- Cost: O(the batch).
-- include: guard cluster
if redis.call('HGET', migration, 'serial') ~= ARGV[1] or redis.call('HLEN', transit) == 0 then return 0 end
local err = not_writable() or not_permitted('DEL', transit) or not_permitted('HSET', migration, 'a', '') or elsewhere(transit_jobs)
if err then return err end
if ARGV[2] - ARGV[1] > 0 then
  redis.call('HSET', migration, 'serial', string.format('%.0f', ARGV[2] + 1))
  return -1
end
for _, entry in ipairs(redis.call('HKEYS', transit)) do redis.call('DEL', transit_jobs .. entry) end
redis.call('DEL', transit)
return 1
