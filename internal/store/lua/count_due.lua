-- count_due: counts the entries of the pool, leases too, that fall due in spans of time.
--
-- KEYS[1] job pool   ARGV of each span: its beginning, and its end (Unix s), which does not belong to it
-- Returns the time (Unix s), and the number of each span. Errors: WRONGTYPE of the pool, NOPERM.
-- One script to spare round trips. Cost: O(log n) of the pool for each span.
local reply = {tonumber(redis.call('TIME')[1])}
for i = 1, #ARGV, 2 do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], ARGV[i], '(' .. ARGV[i + 1])
end
return reply
