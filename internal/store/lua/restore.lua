-- restore: puts a job back that was taken for a caller who has gone, as the next of its topic.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the topic's ready queue
-- ARGV[1] job ID   ARGV[2] topic   ARGV[3] body   ARGV[4] lifetime left in ms, -1 if endless
--
-- Returns 1, or 0 when the ID was pushed anew meanwhile: the new job stands.
-- Errors: WRONGTYPE, before anything is written.
--
-- Atomic because a job must not be half there.
-- Cost: O(log n) of the pool.
local err = not_a_list(KEYS[3])
if err then return err end
if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
-- A script that has written is not refused at maxmemory, and this one only
-- gives back what the take had freed.
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'topic', ARGV[2], 'body', ARGV[3])
local ttl = tonumber(ARGV[4])
if ttl >= 0 then redis.call('PEXPIRE', KEYS[2], string.format('%.0f', math.max(ttl, 1))) end
redis.call('RPUSH', KEYS[3], ARGV[1])
return 1
