-- run_schedule: stores a job of a schedule now. The next occurrences do not change.
--
-- KEYS[1] job pool   ARGV[1] the schedule's ID   ARGV[2] how the job's ID begins
-- Returns the job's ID, '' if there is no such schedule. Under the overlap 'follow' it is the last job's ID unless that job is done.
-- Errors: OOM, WRONGTYPE of the queue, NOPERM. Nothing has changed then.
-- Atomic because the schedule may be changed meanwhile. Cost: O(1).
-- include: follow queue schedule time topics cluster
local id = ARGV[1]
local bucket = buckets .. id
local s = redis.call('HMGET', bucket, 'topic', 'revision', 'to', 'content', 'options', 'past', 'overlap', 'last', 'ran')
if s[1] ~= SCHEDULE_TOPIC or not s[2] then return '' end
local job = ARGV[2] .. string.format('%.0f', now_us)
local full = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
local last = s[7] == OVERLAP_FOLLOW and s[8]
local why_not = type(full) == 'table' and full or no_queue(s[3]) or no_bucket(bucket) or elsewhere(queues .. s[3])
  or elsewhere(buckets .. job) or last and elsewhere(buckets .. last)
local lease = not why_not and last and lease_of_last(last)
if type(lease) == 'table' then why_not = lease end
if why_not then return why_not end
local length, stored
if last and redis.call('EXISTS', buckets .. last) == 1 then
  job = last
  if lease then lease, stored = follow_last(last, lease, s[3], s[4], s[5], begun) end -- it is due at once then
else
  stored = store_bucket(job, s[3], s[4], s[5], begun)
  if stored then
    register_push(s[3], now / 1000, now / 1000)
    length = redis.call('LPUSH', queues .. s[3], job)
  end
end
local ran = (tonumber(s[9]) or 0) + (stored and 1 or 0)
redis.call('HSET', bucket, 'last', job, 'past', remember(s[6], {string.format('%d', now) .. RUN_NOW .. '0'}), 'ran', string.format('%d', ran))
if length then wake(s[3], length) end
return job
