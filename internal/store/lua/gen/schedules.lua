-- schedules: reads some schedules.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local schedules = prefix .. 'schedules'
local function names_behind(name, most)
  local names = redis.call('ZRANGE', schedules, name == '' and '-' or '(' .. name, '+', 'BYLEX', 'LIMIT', 0, most)
  return names, #names == most and names[most] or ''
end
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local buckets = prefix .. 'job_bucket:'
local SCHEDULE_TOPIC = 'delayer:schedules'
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
