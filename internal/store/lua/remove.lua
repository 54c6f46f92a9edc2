-- remove: takes a job out, wherever it is.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket
-- ARGV[1] job ID   ARGV[2] what the names of ready queues begin with
--
-- Returns 1 when there was a job, which from now on nobody gets; else 0.
-- Errors: WRONGTYPE of the bucket, a permission that is missing, before anything is written.
--
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool; of an ID that is ready, also its queue's length (at most 10,000).
local topic = redis.call('HGET', KEYS[2], 'topic')
local waits = redis.call('ZSCORE', KEYS[1], ARGV[1])
local err = not_permitted('ZREM', KEYS[1], '')
if err then return err end
-- The bucket first: an entry that is left behind means nothing without it.
local removed = redis.call('DEL', KEYS[2])
if waits then
  redis.call('ZREM', KEYS[1], ARGV[1])
elseif topic then
  withdraw(ARGV[2] .. topic, ARGV[1])
end
return removed
