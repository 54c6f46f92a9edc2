-- require: keys guard queue lease dead
-- remove: takes a job out, wherever it is; one that is reserved, too. If there is only a dead
-- letter of that ID, that is deleted. A push of that ID counts again.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the dead letter's
-- ARGV[1] job ID
--
-- Returns 1 when there was a job, which from now on nobody gets; else 0.
-- Errors: WRONGTYPE of the bucket, a permission that is missing, before anything is written.
--
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool; of an ID that is ready, also its queue's length (at most 10,000).
local topic = redis.call('HGET', KEYS[2], 'topic')
local waits = redis.call('ZSCORE', pool, ARGV[1])
local err = not_permitted('ZREM', pool, '')
if err then return err end
-- The bucket first: an entry that is left behind means nothing without it.
local removed = redis.call('DEL', KEYS[2])
redis.pcall('ZREM', once, ARGV[1])
if waits then
  redis.call('ZREM', pool, ARGV[1])
  if topic and is_lease(waits) then count_reserved({[topic] = -1}, {ARGV[1]}) end
elseif topic then
  withdraw(topic, ARGV[1])
end
if removed == 1 then return 1 end
local dead = redis.call('HGET', KEYS[3], 'topic')
if not dead then return 0 end
redis.call('DEL', KEYS[3])
unlist(dead, ARGV[1])
return 1
