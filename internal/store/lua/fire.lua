-- fire: stores the jobs of schedules that are due, and sets their next occurrences.
--
-- KEYS[1] job pool
-- ARGV[1] when to retry schedules that can't be fired (Unix ms)   ARGV[2] after how long to leave the rest to another call (µs)
-- ARGV[3…] of each schedule: its ID, revision, and the occurrence that it is due for (Unix ms), as they were read; its next occurrence
--   (Unix ms), '' for none, 'later' if it can't be computed; how many occurrences have no job because they are too late, and because of a
--   pause; 1 if it has old specs, else 0; how many occurrences follow, and of each: when (Unix ms); r, it has a job, or l or p, none: late
--   or paused; the job's ID; and when that is due (Unix ms)
-- Returns {why, schedule, schedule, …}: why no waiter could be woken, 'woken' if one was; and of each schedule that is not left to another
-- call: {0}, it was changed, removed or fired meanwhile, or is not due; {1, ran, overlapped, followed}, how many occurrences have a job, how
-- many have none because the previous job is not done, and which job the last one's follows, '' for none; or {2, why}, it can't be fired and
-- is now due later.
-- Errors: WRONGTYPE of the pool, NOPERM, READONLY. Nothing has changed then.
-- Atomic because an occurrence must have its job exactly if the next one is set. A schedule is checked before its first write, so a broken one
-- does not affect the others.
-- Cost: O(log n) of the pool for each job.
-- include: guard pool queue schedule time topics cluster
local FIELDS = {'topic', 'revision', 'next', 'to', 'content', 'overlap', 'options', 'last', 'past', 'ran'}
local CHUNK = 1000 -- arguments of one command
local probe = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
local is_full = type(probe) == 'table' and string.find(probe.err, 'OOM ', 1, true)
local err = type(probe) == 'table' and not is_full and probe or not_permitted('ZREM', pool, '')
if err then return err end
if IN_CLUSTER then
  -- include: cluster: elsewhere
  local at = 3
  while not err and at < #ARGV do
    local s = redis.pcall('HMGET', buckets .. ARGV[at], 'to', 'last')
    err = elsewhere(buckets .. ARGV[at]) or s[1] and elsewhere(queues .. s[1]) or s[2] and elsewhere(buckets .. s[2])
    for i = at + 8, at + 4 + 4 * ARGV[at + 7], 4 do err = err or elsewhere(buckets .. ARGV[i + 2]) end
    at = at + 8 + 4 * ARGV[at + 7]
  end
  if err then return err end
end

-- What is written for all schedules together, at the end.
local entries, soonest = {}, math.huge -- of the pool: score, ID, score, ID, …; when the first of them is due
local ready, used = {}, {}             -- of each topic: the IDs of jobs that are due; until when it is used
local function put(id, due)
  entries[#entries + 1], entries[#entries + 2], soonest = score_of(due), id, math.min(soonest, due)
end

local retried = 0
local function defer(id, why)
  redis.call('ZREM', pool, id) -- first: a script that has written is not refused at maxmemory
  redis.call('ZADD', pool, retry_score(tonumber(ARGV[1]), retried), id)
  retried = retried + 1
  return {2, why}
end

local refused = {} -- why a topic's queue can't be used, false if it can
local may_store, lease_of, follow

local function fire(id, score, revision, read, upcoming, late, paused, has_old, first, last_place)
  local bucket = buckets .. id
  if not score or score - now_s > 0 then return {0} end
  local s = redis.pcall('HMGET', bucket, unpack(FIELDS))
  if s.err then return defer(id, s.err) end
  if s[1] ~= SCHEDULE_TOPIC or s[2] ~= revision then return {0} end
  if upcoming == 'later' then return defer(id, '') end
  if s[3] ~= read then return {0} end
  if not s[4] or not s[5] then return defer(id, 'ERR the schedule says nothing of its jobs (job bucket ' .. bucket .. ')') end
  local topic, content, overlap, options, last = s[4], s[5], s[6], s[7], s[8]
  if refused[topic] == nil then refused[topic] = no_queue(topic) or false end
  local why_not = refused[topic] or may_store and not_permitted('HSET', bucket, 'topic', '') or not may_store and no_bucket(bucket)
  may_store = may_store or not why_not
  local lease
  if overlap == OVERLAP_FOLLOW and not why_not then
    if not follow then
      -- include: follow: lease_of_last follow_last
      lease_of, follow = lease_of_last, follow_last
    end
    lease = lease_of(last)
    why_not = type(lease) == 'table' and lease
  end
  if why_not or is_full then return defer(id, (why_not or probe).err) end

  local ran, overlapped, followed, occurrences = 0, 0, '', {}
  for i = first, last_place, 4 do
    local at, what, job, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
    if what == RAN then
      local is_busy = overlap ~= OVERLAP_ALLOW and last and redis.call('EXISTS', buckets .. last) == 1
      local has_job
      if not is_busy then
        has_job, last = store_bucket(job, topic, content, options, due), job
        if has_job and due <= begun then
          ready[topic] = ready[topic] or {}
          ready[topic][#ready[topic] + 1] = job
        elseif has_job then
          put(job, due)
        end
        if has_job then used[topic] = math.max(used[topic] or now, due) end
      elseif lease then
        lease, has_job = follow(last, lease, topic, content, options, due) -- false if it replaces another follower
        followed = last
      end
      if has_job then ran = ran + 1 end
      if is_busy and not has_job then what, overlapped = OVERLAPPED, overlapped + 1 end
    end
    occurrences[#occurrences + 1] = at .. what .. string.format('%d', math.max(now - at, 0))
  end
  local fields = {'next', upcoming, 'past', remember(s[9], occurrences), 'last', last or ''}
  if ran > 0 then fields[7], fields[8] = 'ran', string.format('%d', (tonumber(s[10]) or 0) + ran) end
  if has_old == '1' then fields[#fields + 1], fields[#fields + 2] = 'old', '' end
  redis.call('HSET', bucket, unpack(fields))
  if overlapped > 0 then redis.pcall('HINCRBY', bucket, 'overlapped', overlapped) end
  if late ~= '0' then redis.pcall('HINCRBY', bucket, 'late', late) end
  if paused ~= '0' then redis.pcall('HINCRBY', bucket, 'paused_out', paused) end
  if upcoming ~= '' then put(id, tonumber(upcoming)) else redis.call('ZREM', pool, id) end
  return {1, ran, overlapped, followed}
end

local ids, places = {}, {}
local place = 3
while place < #ARGV do
  ids[#ids + 1], places[#places + 1] = ARGV[place], place
  place = place + 8 + 4 * ARGV[place + 7]
end
local scores = redis.call('ZMSCORE', pool, unpack(ids))
local reply, took = {''}, #ids > 1 and stopwatch()
for i, id in ipairs(ids) do
  if i % 4 == 0 and took() > tonumber(ARGV[2]) then break end
  local _, revision, read, upcoming, late, paused, has_old, count = unpack(ARGV, places[i], places[i] + 7)
  local first = places[i] + 8
  reply[i + 1] = fire(id, scores[i], revision, read, upcoming, late, paused, has_old, first, first + 4 * count - 1)
end
for i = 1, #entries, CHUNK do redis.call('ZADD', pool, unpack(entries, i, math.min(i + CHUNK - 1, #entries))) end
if soonest < math.huge then announce(score_of(soonest), math.max(soonest - now, 0)) end
for topic, until_ms in pairs(used) do register_push(topic, now / 1000, until_ms / 1000) end
for topic, jobs in pairs(ready) do
  local length
  for i = 1, #jobs, CHUNK do length = redis.call('LPUSH', queues .. topic, unpack(jobs, i, math.min(i + CHUNK - 1, #jobs))) end
  local woken, cant_publish = wake(topic, length)
  if woken or reply[1] == '' then reply[1] = woken and 'woken' or cant_publish or '' end
end
return reply
