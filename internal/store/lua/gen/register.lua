-- register: says which program a client is that waits, for those who look at its waiters.
--
-- KEYS[1] the client's key
-- ARGV[1] for how long it lasts (ms)   ARGV[2] host   ARGV[3] process   ARGV[4] program
--
-- Returns nothing of use.
-- Errors: a permission that is missing, WRONGTYPE; nothing has changed then.
--
-- A list, as each user that waits may LPUSH. PEXPIRE comes first, so that nothing is written that could not expire.
-- Atomic so that two do not write it twice.
-- Cost: O(1).
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('LPUSH', KEYS[1], ARGV[4], ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
