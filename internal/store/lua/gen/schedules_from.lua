-- schedules_from: names some schedules of one source.
--
-- KEYS[1] job pool
-- ARGV[1] the source   ARGV[2] behind which name to go on, '' to begin   ARGV[3] how many schedules to read at most
--
-- Returns {last, name, name, …}: the name to go on behind, '' at the end; and the names.
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
local first, most = 0, tonumber(ARGV[3])
if ARGV[2] ~= '' then first = entries_before(schedules, '0', ARGV[2] .. '\0') end
local names = redis.call('ZRANGE', schedules, first, first + most - 1)
local reply = {#names == most and names[most] or ''}
for _, name in ipairs(names) do
  local source = redis.pcall('HMGET', buckets .. schedule_id(name), 'source')
  if source[1] == ARGV[1] then reply[#reply + 1] = name end
end
return reply
