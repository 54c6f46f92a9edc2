-- fsck_reserved: corrects the numbers of some topics' reserved jobs.
--
-- KEYS[1] job pool
-- ARGV[1…] a topic, its number as read, and the number of its leases
-- Returns the topics that it corrected: those whose number has not changed since. Errors: NOPERM. Nothing has changed then.
-- Atomic because a job may be reserved between the check and the change. Cost: O(topics).
-- include: guard limit
local err = not_permitted('HINCRBY', reserved_counts, '', '0') or not_permitted('HDEL', reserved_counts, '')
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
