-- lengths: how long some ready queues are; it changes nothing.
--
-- KEYS[…] ready queues
--
-- Returns a number for each: 1 if it can't be read, so that a pop is tried, which tells why.
--
-- One script only to spare round trips.
-- Cost: O(queues).
local lengths = {}
for i = 1, #KEYS do
  local length = redis.pcall('LLEN', KEYS[i])
  lengths[i] = type(length) == 'number' and length or 1
end
return lengths
