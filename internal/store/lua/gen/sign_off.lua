-- sign_off: deletes the entry of a server that stops.
--
-- KEYS[1] the servers
-- ARGV[1] the server's ID
--
-- Returns how many entries it deleted.
-- Errors: WRONGTYPE, NOPERM.
--
-- Cost: O(1).
return redis.call('HDEL', KEYS[1], ARGV[1])
