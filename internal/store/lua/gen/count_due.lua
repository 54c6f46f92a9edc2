-- count_due: how many entries of the pool fall due in spans of time, leases among them; it changes
-- nothing.
--
-- KEYS[1] job pool
-- ARGV[1…] of each span, its beginning and its end (Unix s), which does not belong to it
--
-- Returns the time (Unix s), and the number for each span.
-- Errors: WRONGTYPE of the pool, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(log n) of the pool a span.
local reply = {tonumber(redis.call('TIME')[1])}
for i = 1, #ARGV, 2 do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], ARGV[i], '(' .. ARGV[i + 1])
end
return reply
