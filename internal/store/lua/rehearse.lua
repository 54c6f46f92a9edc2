-- rehearse: whether this user may do what changes something in a move; it changes nothing.
--
-- KEYS[1] job pool   KEYS[2] a ready queue   KEYS[3] a job's bucket
-- ARGV[1] the queue's channel   ARGV[2] the job's ID; queue and ID are not in use
--
-- Returns why nothing can be announced, '' if it can.
-- Errors: a permission that is missing; Redis before 7.0 doesn't tell that of LPUSH. CROSSSLOT: it is
-- a node of a cluster, and the prefix has no hash tag. (A move does not name its queue, and so would
-- go well where one node has all slots; a pop names it.)
--
-- Cost: O(1).
local err = not_permitted('LPUSH', KEYS[2], '')
if err then return err end
redis.call('ZREM', KEYS[1], ARGV[2])
local announced = redis.pcall('PUBLISH', ARGV[1], 0)
return type(announced) == 'table' and announced.err or ''
