-- push: stores a job and schedules it; an ID that exists is replaced, or as the policy says.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the topic's ready queue
-- ARGV[1] job ID   ARGV[2] topic   ARGV[3] body
-- ARGV[4] 'in': ARGV[5] is a delay in ms; 'at': a Unix time in ms
-- ARGV[6] how long the job is kept once it is ready, ms
-- ARGV[7] 'replace', 'refuse', 'earlier' or 'later': what becomes of an ID that exists
-- ARGV[8] what the names of ready queues begin with
-- ARGV[9] the channel on which servers are told of a job that is now the next to fall due
--
-- Returns 1 when the job is stored, 0 when it exists and the policy is 'refuse'.
-- Errors: WRONGTYPE, OOM and the like, each before anything is written.
--
-- Atomic because a bucket without its pool entry would never fall due, and a
-- pool entry without its bucket could not be delivered.
-- Cost: O(log n) of the pool; of an ID that is ready, also its queue's length (at most 10,000).
local pool, bucket, ready = KEYS[1], KEYS[2], KEYS[3]
local id, topic, policy = ARGV[1], ARGV[2], ARGV[7]

local now = math.ceil(clock() * 1000)
local due = tonumber(ARGV[5])
if ARGV[4] == 'in' then due = now + due end

local waits = redis.call('ZSCORE', pool, id)
local was = redis.call('HGET', bucket, 'topic')
if was then
  if policy == 'refuse' then return 0 end
  local old = waits and math.min(tonumber(waits) * 1000, LAST_MS) or now
  if policy == 'earlier' then due = math.min(due, old) end
  if policy == 'later' then due = math.max(due, old) end
end
if due <= now then
  local err = not_a_list(ready)
  if err then return err end
end

-- The first write is one that Redis refuses at maxmemory, so that a push is
-- refused whole.
redis.call('HSET', bucket, 'topic', topic, 'body', ARGV[3])
redis.call('PEXPIRE', bucket, string.format('%.0f', math.max(due - now, 0) + ARGV[6]))
if was and not waits then withdraw(ARGV[8] .. was, id) end
schedule(pool, ready, id, due, now, ARGV[9])
return 1
