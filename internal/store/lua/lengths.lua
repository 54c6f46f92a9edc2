-- require: guard
-- lengths: how long some ready queues are; it changes nothing; behind no_writes.
--
-- KEYS[…] ready queues
--
-- Returns a number for each, or nothing if none exists, which is the rule. The number is 1 if it
-- can't be read, so that a pop is tried, which tells why.
-- Errors: a server that takes no writes.
--
-- One script only to spare round trips.
-- Cost: O(queues).
local denied = takes_no_writes(KEYS[1])
if denied then return denied end
if redis.pcall('EXISTS', unpack(KEYS)) == 0 then return {} end
local lengths = {}
for i = 1, #KEYS do
  local length = redis.pcall('LLEN', KEYS[i])
  lengths[i] = type(length) == 'number' and length or 1
end
return lengths
