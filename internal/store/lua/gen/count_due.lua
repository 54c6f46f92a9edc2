-- count_due: counts the pool's entries, leases included, that fall due in spans of time.
--
-- KEYS[1] job pool   ARGV of each span: its start, and its end, exclusive (Unix s)
-- Returns the time (Unix s), and the count of each span. Errors: WRONGTYPE of the pool, NOPERM.
-- One script saves round trips. Cost: O(log n) of the pool for each span.
local reply = {tonumber(redis.call('TIME')[1])}
for i = 1, #ARGV, 2 do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], ARGV[i], '(' .. ARGV[i + 1])
end
return reply
