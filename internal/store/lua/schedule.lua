-- schedule: stores or changes a schedule.
--
-- KEYS[1] job pool
-- ARGV[1] its name   ARGV[2] its next occurrence (Unix ms), if its spec or zone changes   ARGV[3…11] the bucket's body (the spec), zone, to,
--   content, missed, overlap, jitter, options, source   ARGV[12] 'missing': only if there is no such schedule and none was removed by hand;
--   else ''
-- Returns {what, next}: 0, it was the same already; 1, it is new; 2, it has changed; 3, a job has its ID, and nothing has changed; and its
-- next occurrence (Unix ms). Overdue occurrences of an old spec are still fired: see old in parts/schedule.lua.
-- Errors: WRONGTYPE, OOM, NOPERM. Nothing has changed then.
-- Atomic because a server may fire it meanwhile. Cost: O(log n) of the pool.
-- include: guard pool schedule time cluster
local FIELDS = {'body', 'zone', 'to', 'content', 'missed', 'overlap', 'jitter', 'options', 'source'}
local MOST_OLD = 4000 -- bytes; more means that no server has fired it through many changes
local name, next = ARGV[1], ARGV[2]
local id = schedule_id(name)
local bucket = buckets .. id
local was = redis.call('HMGET', bucket, 'topic', 'revision', 'next', 'old', unpack(FIELDS))
if was[1] and not was[2] then return {3, 0} end
if ARGV[12] == 'missing' then
  -- A known schedule without a bucket was removed as a job is.
  if was[1] or redis.call('ZSCORE', schedules, name) or redis.call('ZSCORE', removed_schedules, name) then return {0, 0} end
end
local changed = not was[1]
for i = 1, #FIELDS do changed = changed or was[4 + i] ~= ARGV[2 + i] end
local due, old = next, nil -- when a server fires it
if was[1] and was[3] ~= '' then
  if was[5] == ARGV[3] and was[6] == ARGV[4] then
    next, due = was[3], was[3]
  elseif (tonumber(was[3]) or 1 / 0) <= begun and was[5] and was[6] and #(was[4] or '') < MOST_OLD then
    due, old = was[3], (was[4] or '') .. string.format('%.0f ', math.min(begun, next - 1)) .. next .. ' ' .. was[6] .. ' ' .. was[5] .. '\n'
  end
end
if not changed and redis.call('ZSCORE', pool, id) then return {0, tonumber(next)} end
local err = not_permitted('HSET', bucket, 'topic', '') or not_permitted('ZADD', schedules, '0', '') or elsewhere(buckets)
if err then return err end
redis.call('ZADD', pool, score_of(tonumber(due)), id)
redis.call('ZADD', schedules, 0, name)
redis.pcall('ZREM', removed_schedules, name)
local fields = {'topic', SCHEDULE_TOPIC, 'next', due, 'revision', string.format('%.0f', math.max(now_us, (was[2] or 0) + 1))}
for i = 1, #FIELDS do fields[#fields + 1], fields[#fields + 2] = FIELDS[i], ARGV[2 + i] end
if old then fields[#fields + 1], fields[#fields + 2] = 'old', old end
redis.call('HSET', bucket, unpack(fields))
announce(score_of(tonumber(due)), math.max(due - now, 0))
return {was[1] and 2 or 1, tonumber(next)}
