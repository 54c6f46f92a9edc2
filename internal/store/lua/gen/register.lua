-- register: stores the program of a waiting client.
--
-- KEYS[1] the client's key   ARGV[1] how long it is kept (ms)   ARGV[2…4] host, process, program
-- Returns nothing. Errors: NOPERM, WRONGTYPE. Nothing has changed then.
-- A list, since every user that waits may LPUSH. PEXPIRE comes first, so that nothing is written that could not expire.
-- Atomic so that two callers do not write it twice. Cost: O(1).
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('LPUSH', KEYS[1], ARGV[4], ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
