-- require: keys place schedule
-- schedules: reads some schedules; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] 'of': those of these IDs; 'behind': those whose names come next
-- ARGV[2…] the IDs; or a name, '' for the beginning, and how many at most
--
-- Returns {time, last, schedule, schedule, …}: Redis's time (Unix µs); the name with which to go on, '' if there are no more; and of each
-- its ID, its score, '' if it has none, and fields of its bucket, '' or 0 if they are not there. What is no schedule is left out.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(log n) of the pool for each.
local COUNTS = 15 -- fields before those that are counts
local ids, last, behind = {}, '', ARGV[1] == 'behind'
if behind then
  local first, count = 0, tonumber(ARGV[3])
  if ARGV[2] ~= '' then first = entries_before(schedules, '0', ARGV[2] .. '\0') end
  local names = redis.call('ZRANGE', schedules, first, first + count - 1)
  for i, name in ipairs(names) do ids[i] = schedule_id(name) end
  if #names == count then last = names[count] end
else
  for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
end
local time = redis.call('TIME')
local reply = {time[1] * 1000000 + time[2], last}
if #ids == 0 then return reply end
local scores = redis.call('ZMSCORE', pool, unpack(ids))
for i, id in ipairs(ids) do
  local fields = redis.pcall('HMGET', buckets .. id, 'revision', 'topic', 'body', 'zone', 'to', 'content', 'missed', 'overlap', 'jitter', 'options', 'source',
    'next', 'paused', 'last', 'past', 'ran', 'late', 'overlapped', 'paused_out')
  if not fields.err and fields[1] and fields[2] == SCHEDULES then
    for k = 1, #fields do fields[k] = fields[k] or k > COUNTS and '0' or '' end
    reply[#reply + 1] = {id, scores[i] or '', fields}
  end
end
return reply
