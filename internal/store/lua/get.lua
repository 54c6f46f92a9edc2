-- get: reads a job without changing it.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket
-- ARGV[1] job ID
--
-- Returns {topic, body, ttl, score}: ttl is the lifetime left in ms, -1 if endless;
-- score is the due time in Unix seconds, '' when the job is ready. The reply is empty
-- when there is no such job.
--
-- Atomic so that state and content belong together.
-- Cost: O(1).
local job = redis.call('HMGET', KEYS[2], 'topic', 'body')
if not job[1] then return {} end
local ttl = redis.call('PTTL', KEYS[2])
return {job[1], job[2] or '', ttl, redis.call('ZSCORE', KEYS[1], ARGV[1]) or ''}
