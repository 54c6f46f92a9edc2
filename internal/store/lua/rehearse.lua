-- require: keys guard queue
-- rehearse: whether this user may do what changes something in a move; it changes nothing.
--
-- KEYS[1] job pool   KEYS[2] a ready queue   KEYS[3] a job's bucket
-- ARGV[1] the topic of that queue, and the ID of that job; neither is in use
--
-- Returns why no client can be woken, '' if it can.
-- Errors: a permission that is missing; Redis before 7.0 doesn't tell that of LPUSH. CROSSSLOT: it is
-- a node of a cluster, and the prefix has no hash tag. (A move does not name its queue, and so would
-- go well where one node has all slots; a pop names it.)
--
-- Cost: O(1).
local err = not_permitted('LPUSH', KEYS[2], '')
if err then return err end
redis.call('ZREM', pool, ARGV[1])
local published = redis.pcall('PUBLISH', wake_channels .. ARGV[1], '')
if type(published) == 'table' then return published.err end
local _, cant_publish = wake(ARGV[1], 0)
return cant_publish or ''
