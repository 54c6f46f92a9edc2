-- resume: takes a step towards a paused topic being delivered again, as a rule the only one. Until the last one it stays paused.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] how many entries are moved at most
--
-- Returns {more, was paused}, each 1 or 0: with more the call is to be made again.
-- Errors: WRONGTYPE of the pool, a permission that is missing; nothing has changed then.
--
-- Atomic because an entry may be in one of both queues only.
-- Cost: O(1); where there are entries both in the queue and aside, O(ARGV[2]).
-- include: keys: pauses paused_queues; time: now; pause: read_pause paused_until release not_pausable
-- cluster: -- include: pause: pause_elsewhere
local topic = ARGV[1]
-- cluster: local missing = pause_elsewhere(topic)
-- cluster: if missing then return missing end
local err = not_pausable(topic)
if err then return err end
redis.call('HDEL', pauses, '') -- takes nothing; what comes behind a write is not refused at maxmemory
local text = redis.call('HGET', pauses, topic)
local p = text and read_pause(text)
local moved, more = release(topic, tonumber(ARGV[2]))
if not moved then return more or redis.error_reply('ERR ' .. paused_queues .. topic .. ' can not be moved') end
return {more and 1 or 0, p and paused_until(p) > now and 1 or 0}
