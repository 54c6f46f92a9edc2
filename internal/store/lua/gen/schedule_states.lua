-- schedule_states: counts schedules by state.
--
-- KEYS[1] job pool
-- ARGV[1] behind which name to go on, '' to begin   ARGV[2] how many schedules at most
--
-- Returns {last, active, paused, ended, overdue}: the name to go on behind, '' at the end; how many are active, paused, or have no next
-- occurrence; and for how long the next occurrence of an active one has been due (ms), 0 if none is.
-- Errors: WRONGTYPE, NOPERM.
--
-- One script to spare round trips.
-- Cost: O(1) for each.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local schedules = prefix .. 'schedules'
local buckets = prefix .. 'job_bucket:'
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
local first, most = 0, tonumber(ARGV[2])
if ARGV[1] ~= '' then first = entries_before(schedules, '0', ARGV[1] .. '\0') end
local names = redis.call('ZRANGE', schedules, first, first + most - 1)
if #names == 0 then return {'', 0, 0, 0, 0} end
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local active, paused, ended, overdue = 0, 0, 0, 0
for _, name in ipairs(names) do
  local s = redis.pcall('HMGET', buckets .. schedule_id(name), 'revision', 'next', 'paused')
  if s.err or not s[1] then
    -- it is none
  elseif s[2] == '' then
    ended = ended + 1
  elseif s[3] then
    paused = paused + 1
  else
    active, overdue = active + 1, math.max(overdue, now_ms - (tonumber(s[2]) or now_ms))
  end
end
return {#names == most and names[most] or '', active, paused, ended, overdue}
