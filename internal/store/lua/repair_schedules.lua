-- repair_schedules: puts schedules back into the pool that a server without schedules, like the original's, has moved; and forgets
-- those whose bucket was removed, see unschedule.
--
-- KEYS[1] job pool
-- ARGV[1] the name behind which to go on, '' to begin   ARGV[2] how many schedules, and entries of the queue, at most
-- ARGV[3] 'moved': only if some were moved, and their queue is not empty; 'all': in any case
-- Returns {all, last, name, …}: how many schedules there are; ARGV[1] of the next call, '' at the end; and those that it put back.
-- Errors: WRONGTYPE, NOPERM. Nothing has changed then.
-- Atomic because a schedule may be removed meanwhile.
-- Cost: O(1) for each, and O(log n) of the pool for each that it puts back. Nothing if none was moved.
-- include: guard schedule time cluster
local queue, most = queues .. SCHEDULE_TOPIC, tonumber(ARGV[2])
local all = redis.call('ZCOUNT', schedules, '-inf', '+inf')
local waiting = redis.call('LLEN', queue)
if waiting == 0 and (all == 0 or ARGV[3] == 'moved' and redis.call('LLEN', parked_queues .. SCHEDULE_TOPIC) == 0) then return {all, ''} end
local err = not_writable() or not_permitted('ZREM', schedules, '') or not_permitted('RPOP', queue) or not_permitted('LPUSH', queue, '')
  or not_permitted('HMGET', buckets, 'topic') or not_permitted('ZMSCORE', pool, '') or not_permitted('ZRANGE', schedules, '0', '0')
  or not_permitted('EXISTS', buckets) or elsewhere(buckets)
if err then return err end
local reply = {all, ''}

-- Puts the schedule back if its bucket is one and the pool lacks it. Returns whether it is a schedule; if not, the job's topic.
local function repair(id, name)
  local s = redis.pcall('HMGET', buckets .. id, 'topic', 'revision', 'next')
  if s[1] ~= SCHEDULE_TOPIC or not s[2] then return false, s[1] end
  if s[3] ~= '' and not redis.call('ZMSCORE', pool, id)[1] then
    redis.call('ZADD', pool, score_of(tonumber(s[3])), id)
    reply[#reply + 1] = name
  end
  return true
end

-- A job that was pushed to this topic stays in the queue.
for _ = 1, math.min(waiting, most) do
  local id = redis.call('RPOP', queue)
  local is, topic = repair(id, schedule_name(id) or id)
  if not is and topic then redis.call('LPUSH', queue, id) end
end
local names
names, reply[2] = names_behind(ARGV[1], most)
if #names == 0 then return reply end
local ids, bucket_keys = {}, {}
for i, name in ipairs(names) do
  ids[i] = schedule_id(name)
  bucket_keys[i] = buckets .. ids[i]
end
-- With entry and bucket there is nothing to repair.
local scores, are_whole = redis.call('ZMSCORE', pool, unpack(ids)), redis.call('EXISTS', unpack(bucket_keys)) == #ids
for i, name in ipairs(names) do
  if not (scores[i] and are_whole) and not repair(ids[i], name) then
    redis.call('ZREM', schedules, name)
    redis.pcall('ZADD', removed_schedules, 0, name)
  end
end
return reply
