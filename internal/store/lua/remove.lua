-- require: keys guard lease
-- remove: takes a job out, wherever it is; one that is reserved, too. If there is only a dead
-- letter of that ID, that is deleted. A push of that ID counts again.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the dead letter's. That key seldom exists, so Redis refuses the call before it begins
-- while the slot of a cluster moves
-- ARGV[1] job ID
--
-- Returns 1 when there was a job, which from now on nobody gets; else 0.
-- Errors: WRONGTYPE of the bucket, a permission that is missing, before anything is written.
--
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool; of an ID that is ready, also its queue's length (at most 10,000).
local call, pcall, id = redis.call, redis.pcall, ARGV[1]
local topic = call('HGET', KEYS[2], 'topic')
local waits = call('ZSCORE', pool, id)
local err = not_permitted('ZREM', pool, '')
if err then return err end
-- The bucket first: an entry that is left behind means nothing without it.
local removed = call('DEL', KEYS[2])
pcall('ZREM', once, id)
local reserved -- how many of its topic are left, if it was
if waits then
  call('ZREM', pool, id)
  if topic and is_lease(waits) then
    reserved = pcall('HINCRBY', reserved_counts, topic, '-1')
    reserved = type(reserved) == 'number' and reserved
    if reserved and reserved <= 0 then pcall('HDEL', reserved_counts, topic) end
  end
  -- Most calls end here, a reserved or waiting job of a topic without slots, before what others need is defined.
  if removed == 1 and not (reserved and reserved >= 3 * 2 ^ 39) then return 1 end
end

-- require: keys queue dead held
if reserved and reserved >= 3 * 2 ^ 39 then -- see count_reserved
  pcall('ZREM', slots .. topic, id)
  let_go_on(topic)
elseif topic and not waits then
  withdraw(topic, id)
end
if removed == 1 then return 1 end
local dead = call('HGET', KEYS[3], 'topic')
if not dead then return 0 end
call('DEL', KEYS[3])
unlist(dead, id)
return 1
