-- require: keys guard pause
-- resume: has a paused topic be delivered again.
--
-- KEYS[1] job pool
-- ARGV[1] the topic
--
-- Returns 1 if it was paused, else 0.
-- Errors: WRONGTYPE of the pool, a permission that is missing; nothing has changed then.
--
-- Atomic because an entry may be in one of both queues only.
-- Cost: O(1); where there are entries both in the queue and aside, O(those of the shorter one).
local topic = ARGV[1]
-- cluster: local missing = pause_elsewhere(topic)
-- cluster: if missing then return missing end
local err = not_pausable(topic)
if err then return err end
local text = redis.call('HGET', pauses, topic)
local p = text and read_pause(text)
redis.call('HDEL', pauses, topic)
release(topic)
return p and paused_until(p) > now and 1 or 0
