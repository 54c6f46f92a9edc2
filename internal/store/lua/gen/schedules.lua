-- schedules: reads some schedules.
--
-- KEYS[1] job pool
-- ARGV[1] 'of': these IDs; 'due': of these what it takes to fire them; 'behind': those whose names come next
-- ARGV[2…] the IDs; or a name, '' to begin, and how many at most
--
-- Returns {time, last, schedule, schedule, …}: Redis's time (Unix µs; 0 with 'due'); the name to go on behind, '' at the end; and of
-- each schedule its ID, its score, '' if it has none or with 'due', and fields of its bucket, '' or 0 for what is not there; with
-- 'due' only the first ones. What is no schedule is left out.
-- Errors: WRONGTYPE, NOPERM.
--
-- One script to spare round trips.
-- Cost: O(log n) of the pool for each.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local schedules = prefix .. 'schedules'
local buckets = prefix .. 'job_bucket:'
local SCHEDULE_TOPIC = 'delayer:schedules'
local function stands_before(a, b)
  for i = 1, math.min(#a, #b) do
    local of_a, of_b = string.byte(a, i), string.byte(b, i)
    if of_a ~= of_b then return of_a < of_b end
  end
  return #a < #b
end
local function entries_before(set, score, id)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('ZRANGE', set, middle, middle)[1]
    if stands_before(entry, id) then low = middle + 1 else high = middle end
  end
  return low
end
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local FIELDS = {'revision', 'topic', 'body', 'zone', 'to', 'missed', 'jitter', 'next', 'paused', 'old'} -- what it takes to fire one
local ids, last, scores, now = {}, '', {}, 0
if ARGV[1] == 'behind' then
  local first, count = 0, tonumber(ARGV[3])
  if ARGV[2] ~= '' then first = entries_before(schedules, '0', ARGV[2] .. '\0') end
  local names = redis.call('ZRANGE', schedules, first, first + count - 1)
  for i, name in ipairs(names) do ids[i] = schedule_id(name) end
  if #names == count then last = names[count] end
else
  for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
end
if ARGV[1] ~= 'due' then
  local others = {'content', 'overlap', 'options', 'source', 'last', 'past', 'ran', 'late', 'overlapped', 'paused_out'}
  for _, field in ipairs(others) do FIELDS[#FIELDS + 1] = field end
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  if #ids > 0 then scores = redis.call('ZMSCORE', pool, unpack(ids)) end
end
local COUNTS = 16 -- fields before those that are counts
local reply = {now, last}
for i, id in ipairs(ids) do
  local fields = redis.pcall('HMGET', buckets .. id, unpack(FIELDS))
  if not fields.err and fields[1] and fields[2] == SCHEDULE_TOPIC then
    for k = 1, #fields do fields[k] = fields[k] or k > COUNTS and '0' or '' end
    reply[#reply + 1] = {id, scores[i] or '', fields}
  end
end
return reply
