-- rehearse: whether this user may do what changes something in a move; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] a ready queue   ARGV[2] its channel   ARGV[3] a job ID, none of which is in use
--
-- Returns why nothing can be announced, '' if it can.
-- Errors: a permission that is missing; Redis before 7.0 doesn't tell that of LPUSH.
--
-- Cost: O(1).
if redis.acl_check_cmd and not redis.acl_check_cmd('LPUSH', ARGV[1], '') then
  return redis.error_reply('NOPERM this user has no permissions to run LPUSH on ' .. ARGV[1])
end
redis.call('ZREM', KEYS[1], ARGV[3])
local announced = redis.pcall('PUBLISH', ARGV[2], 0)
return type(announced) == 'table' and announced.err or ''
