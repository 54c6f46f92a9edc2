-- sign_off: deletes the entry of a server that stops.
--
-- KEYS[1] the hash of servers
-- ARGV[1] the server's ID
--
-- Returns how many entries were deleted.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- Cost: O(1).
return redis.call('HDEL', KEYS[1], ARGV[1])
