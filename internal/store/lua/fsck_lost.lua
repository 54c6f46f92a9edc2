-- fsck_lost: finds jobs that are in no state, and returns them to their topics or deletes them if asked to.
--
-- KEYS[1] job pool
-- ARGV[1] LOST_LOOK, LOST_REQUEUE or LOST_DROP   ARGV[2…] an ID, and from the last call the expiry of its bucket (Unix ms; -1: never) and its
--   fingerprint; 0 and '' for the first call
-- Returns {took, id, topic, expires, fingerprint, repaired, …}: the script's own time (µs); and the jobs that are lost and have not
-- changed since the last call. repaired is 1 if the job was returned to its topic or deleted.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
--
-- The caller has not found the ID in its queue. It waits between two calls, as an old consumer that takes a job removes its entry first.
-- Jobs that became ready since are at an end of the queue, which this script searches.
-- Atomic because a job must be in one state. Cost: O(ENDS) for each.
-- include: guard lease queue time topics cluster
local FIRST = 2
local ENDS = 5000
local watch, what = stopwatch(), ARGV[1]
if what ~= LOST_LOOK then
  local err = not_writable() or all_unreadable() or not_permitted('LPUSH', queues, '') or not_permitted('DEL', buckets)
    or elsewhere(buckets)
  if err then return err end
end

local function is_at_end(queue, id)
  for _, rank in ipairs({1, -1}) do
    if type(redis.pcall('LPOS', queue, id, 'RANK', rank, 'MAXLEN', ENDS)) == 'number' then return true end
  end
  return false
end

local function requeue(id, topic)
  if make_ready(topic, id) then redis.call('ZADD', pool, score_of(now), id) end -- the server reports a broken queue
  register_use(topic, now_s, 0)
end

local reply = {watch()}
for i = FIRST, #ARGV, 3 do
  local id = ARGV[i]
  local key = buckets .. id
  local job = redis.pcall('HMGET', key, 'topic', 'lease', 'first')
  local topic = not job.err and job[1]
  if topic and not redis.call('ZSCORE', pool, id) and not is_at_end(queues .. topic, id) and not is_at_end(parked_queues .. topic, id) then
    local left = redis.call('PTTL', key)
    local expires = left < 0 and -1 or now + left
    local fingerprint = redis.sha1hex(table.concat({topic, job[2] or '', job[3] or '', redis.call('HSTRLEN', key, 'body')}, ' '))
    local was = tonumber(ARGV[i + 1])
    local is_same = ARGV[i + 2] == fingerprint and math.abs(expires - was) <= CLOCK_SLACK
    if ARGV[i + 2] == '' or is_same then
      local n, repaired = #reply, is_same and what ~= LOST_LOOK
      if repaired and what == LOST_REQUEUE then requeue(id, topic) end
      if repaired and what == LOST_DROP then
        redis.call('DEL', key)
        redis.pcall('ZREM', once, id)
      end
      reply[n + 1], reply[n + 2], reply[n + 3] = id, topic, string.format('%.0f', expires)
      reply[n + 4], reply[n + 5] = fingerprint, repaired and 1 or 0
    end
  end
end
wake_all()
reply[1] = watch()
return reply
