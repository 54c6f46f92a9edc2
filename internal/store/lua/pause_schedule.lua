-- pause_schedule: pauses a schedule, so that its occurrences have no jobs, or resumes it.
--
-- KEYS[1] job pool   ARGV[1] the schedule's ID   ARGV[2] 'pause' or 'resume'
-- Returns 1, or 0 if there is no such schedule. Errors: WRONGTYPE of the bucket, OOM, NOPERM. Nothing has changed then.
-- Atomic because a server that has read the schedule before must not fire it. Cost: O(1).
-- include: guard time
local bucket = buckets .. ARGV[1]
local s = redis.call('HMGET', bucket, 'topic', 'revision', 'paused')
if s[1] ~= SCHEDULE_TOPIC or not s[2] then return 0 end
if (ARGV[2] == 'pause') == (s[3] and true or false) then return 1 end
local err = not_permitted('HDEL', bucket, 'paused')
if err then return err end
redis.call('HSET', bucket, 'revision', string.format('%.0f', math.max(now_us, s[2] + 1)))
if ARGV[2] == 'pause' then redis.call('HSET', bucket, 'paused', string.format('%d', now)) else redis.call('HDEL', bucket, 'paused') end
return 1
