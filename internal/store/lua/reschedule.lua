-- reschedule: gives a waiting or ready job a new due time. The time that it is
-- kept once it is ready stays what it was.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket
-- ARGV[1] job ID   ARGV[2] new delay, ms   ARGV[3] what the names of ready queues begin with
-- ARGV[4] the channel on which servers are told of a job that is now the next to fall due
--
-- Returns 1, or 0 when there is no such job.
-- Errors: WRONGTYPE, OOM, before anything is written.
--
-- Atomic because the job must not be moved or taken between being read and being written.
-- Cost: as push.
local pool, bucket, id = KEYS[1], KEYS[2], ARGV[1]

local topic = redis.call('HGET', bucket, 'topic')
if not topic then return 0 end
local ready = ARGV[3] .. topic
local err = not_a_list(ready)
if err then return err end

local now = now_ms()
local delay = tonumber(ARGV[2])
local due = now + delay
local waits = redis.call('ZSCORE', pool, id)
local ttl = redis.call('PTTL', bucket)
if not waits and delay == 0 then return 1 end
local is_next = is_next_due(pool, due, now)
if type(is_next) == 'table' then return is_next end

-- ZADD is refused at maxmemory, LREM is not: ZADD goes first.
if delay > 0 then
  redis.call('ZADD', pool, score(due), id)
  if not waits then withdraw(ready, id) end
else
  redis.call('ZREM', pool, id)
  redis.call('LPUSH', ready, id)
end
if ttl >= 0 then
  local until_due = waits and math.max(tonumber(waits) * 1000 - now, 0) or 0
  if until_due < ttl then ttl = ttl - until_due end
  redis.call('PEXPIRE', bucket, string.format('%.0f', ttl + delay))
end
if delay > 0 and is_next then tell(ARGV[4], delay) end
return 1
