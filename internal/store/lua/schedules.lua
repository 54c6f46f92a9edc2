-- schedules: reads some schedules.
--
-- KEYS[1] job pool
-- ARGV[1] how many of the FIELDS: 'brief'; 'due', those that a server needs to fire it; or 'all', and its score
-- ARGV[2] 'of': these IDs; 'behind': the next names   ARGV[3…] the IDs; or a name, '' to begin, and how many at most
-- Returns {time, last, schedule, schedule, …}: Redis's time (Unix µs; 0 with 'due'); the name to go on behind, '' at the end; and of each
-- schedule its ID, its score, '' for none, and the fields, '' or 0 for missing ones. IDs that are no schedules are left out.
-- Errors: WRONGTYPE, NOPERM.
-- One script saves round trips. Cost: O(log n) of the pool for each.
-- include: schedule
local FIELDS = {'revision', 'topic', 'next', 'paused', 'source', 'body', 'zone', 'to', 'missed', 'jitter', 'old', 'content', 'overlap',
  'options', 'last', 'past', 'ran', 'late', 'overlapped', 'paused_out'}
local COUNTS = 16 -- fields before those that are counts
local fields_read = ({brief = 5, due = 11, all = #FIELDS})[ARGV[1]]
local ids, last, scores, now = {}, '', {}, 0
if ARGV[2] == 'behind' then
  local names
  names, last = names_behind(ARGV[3], tonumber(ARGV[4]))
  for i, name in ipairs(names) do ids[i] = schedule_id(name) end
else
  for i = 3, #ARGV do ids[i - 2] = ARGV[i] end
end
if ARGV[1] ~= 'due' then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
if ARGV[1] == 'all' and #ids > 0 then scores = redis.call('ZMSCORE', pool, unpack(ids)) end
local reply = {now, last}
for i, id in ipairs(ids) do
  local fields = redis.pcall('HMGET', buckets .. id, unpack(FIELDS, 1, fields_read))
  if not fields.err and fields[1] and fields[2] == SCHEDULE_TOPIC then
    for k = 1, #fields do fields[k] = fields[k] or k > COUNTS and '0' or '' end
    reply[#reply + 1] = {id, scores[i] or '', fields}
  end
end
return reply
