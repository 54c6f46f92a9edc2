-- resume: takes a step, usually the only one, to end a topic's pause. It stays paused until the last step.
--
-- KEYS[1] job pool   ARGV[1] the topic   ARGV[2] how many entries to move at most
-- Returns {more, was paused}, each 1 or 0: with more, the call is to be repeated.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because an entry must be in one of the two queues. Cost: O(1); if jobs are both ready and parked, O(ARGV[2]).
-- include: pause time cluster
local topic = ARGV[1]
local err = not_pausable() or pause_elsewhere(topic)
if err then return err end
redis.call('HDEL', pauses, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
local text = redis.call('HGET', pauses, topic)
local p = text and read_pause(text)
local moved, more = release(topic, tonumber(ARGV[2]))
if not moved then return more or redis.error_reply('ERR ' .. parked_queues .. topic .. ' can not be moved') end
return {more and 1 or 0, p and paused_until(p) > now and 1 or 0}
