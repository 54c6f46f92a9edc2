-- fsck_reserved: sets the numbers of some topics' reserved jobs right.
--
-- KEYS[1] job pool
-- ARGV[1…] a topic, its number as it was read, and its leases as they were counted
-- Returns the topics that it repaired: those whose number is still the same. Errors: NOPERM. Nothing has changed then.
-- Atomic because a job may be reserved between the check and the change. Cost: O(topics).
-- include: guard limit
local err = not_permitted('HINCRBY', reserved_counts, '', '0')
if err then return err end
local repaired = {}
for i = 1, #ARGV, 3 do
  local topic, was, leases = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if (redis.call('HGET', reserved_counts, topic) or '0') == was then
    local count = lowered(tonumber(was) or 0)
    if redis.call('HINCRBY', reserved_counts, topic, string.format('%d', leases - count)) == 0 then redis.call('HDEL', reserved_counts, topic) end
    repaired[#repaired + 1] = topic
  end
end
return repaired
