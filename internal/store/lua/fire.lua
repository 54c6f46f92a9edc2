-- require: keys time guard pool queue schedule
-- fire: stores the jobs of a schedule that is due, and gives it its next moment.
--
-- KEYS[1] job pool
-- ARGV[1] the schedule's ID   ARGV[2] its revision, and   ARGV[3] the moment that it was due for (Unix ms), as they were read
-- ARGV[4] its next moment (Unix ms), '' if there is none, 'later' if that can't be told   ARGV[5] when it is to be tried again if it can't be fired (Unix ms)
-- ARGV[6] how many moments have no job because they are too late   ARGV[7] and because it is paused
-- ARGV[8…] the last moments, each: when (Unix ms), what (r: it has a job; l, p: it has none), the job's ID, and when that is due (Unix ms)
--
-- Returns {0}: somebody else has fired, changed or removed it, or it is not due; {1, ran, overlapped, why, followed}: it is done, how many moments
-- have a job, and how many have none because the one before is not done; why no waiter could be woken, 'woken' if one was; the ID of the job that
-- the last moment's job follows, '' if it follows none; or {2, why}: it can't be fired, it is due later now.
-- Errors: WRONGTYPE of the pool, a permission that is missing, a server that takes no writes; nothing has changed then.
--
-- Atomic because a moment must have its job exactly if the next one has come.
-- Cost: O(log n) of the pool for each job.
local FIRST, EACH = 8, 4
local id = ARGV[1]
local bucket = buckets .. id
local score = redis.call('ZMSCORE', pool, id)[1]
if not score or score - now_s > 0 then return {0} end

local function put_off(why)
  local err = not_writable()
  if err then return err end
  redis.call('ZREM', pool, id) -- first: a script that has written is not refused at maxmemory
  redis.call('ZADD', pool, score_of(tonumber(ARGV[5])), id)
  return {2, why}
end

local COUNTS, FIRST_COUNT = {'ran', 'overlapped', 'late', 'paused_out'}, 11
local s = redis.pcall('HMGET', bucket, 'topic', 'revision', 'next', 'to', 'content', 'overlap', 'options', 'last', 'past', 'old', unpack(COUNTS))
-- cluster: local missing = elsewhere(bucket)
-- cluster: if missing then return missing end
if s.err then return put_off(s.err) end
if s[1] ~= SCHEDULES or s[2] ~= ARGV[2] then return {0} end
if ARGV[4] == 'later' then return put_off('') end
if s[3] ~= ARGV[3] then return {0} end
if not s[4] or not s[5] then return put_off('ERR the schedule says nothing of its jobs (job bucket ' .. bucket .. ')') end
local topic, content, overlap, options, last = s[4], s[5], s[6], s[7], s[8]
-- cluster: for i = FIRST, #ARGV, EACH do
-- cluster:   missing = missing or elsewhere(buckets .. ARGV[i + 2])
-- cluster: end
-- cluster: missing = missing or elsewhere(queues .. topic) or last and elsewhere(buckets .. last)
-- cluster: if missing then return missing end
local lease, follow
if overlap == 'follow' then
  -- define: follow_last with time now pool prefix buckets not_permitted
  lease, follow = lease_of_last(last), follow_last
end
local why_not = type(lease) == 'table' and lease or not_fireable(topic, bucket)
if why_not then return put_off(why_not.err) end

-- The first write says whether Redis is full.
local upcoming, written = ARGV[4] ~= '' and score_of(tonumber(ARGV[4])), nil
if upcoming then
  written = redis.pcall('ZADD', pool, upcoming, id)
else
  written = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
end
if type(written) == 'table' then
  if string.find(written.err, 'OOM ', 1, true) then return put_off(written.err) end
  return written
end
if not upcoming then redis.call('ZREM', pool, id) end
local ran, overlapped, followed, length, moments = 0, 0, '', nil, {}
for i = FIRST, #ARGV, EACH do
  local at, what, job, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if what == 'r' then
    local is_busy = overlap ~= 'allow' and last and redis.call('EXISTS', buckets .. last) == 1
    local has_job = not is_busy
    if not is_busy then
      local queued, stored = store_job(job, topic, content, options, due)
      length, last, has_job = queued or length, job, stored
    elseif lease then
      lease, has_job = follow(last, lease, topic, content, options, due) -- if it has none it takes another one's
      followed = last
    end
    if has_job then ran = ran + 1 end
    if is_busy and not has_job then what, overlapped = 'o', overlapped + 1 end
  end
  moments[#moments + 1] = at .. what .. string.format('%d', math.max(now - at, 0))
end
local fields = {'next', ARGV[4], 'past', remember(s[9], moments), 'last', last or ''}
if s[10] and s[10] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'old', '' end
for i, more in ipairs({ran, overlapped, tonumber(ARGV[6]), tonumber(ARGV[7])}) do
  if more > 0 then
    local count = tonumber(s[FIRST_COUNT + i - 1]) or 0
    fields[#fields + 1], fields[#fields + 2] = COUNTS[i], string.format('%d', count + more)
  end
end
redis.call('HSET', bucket, unpack(fields))
if upcoming then announce(upcoming, ARGV[4] - now) end
local woken, cant_publish
if length then woken, cant_publish = wake(topic, length) end
return {1, ran, overlapped, cant_publish or woken and 'woken' or '', followed}
