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
-- include: place: entries_before; schedule: schedule_id
local first, most = 0, tonumber(ARGV[3])
if ARGV[2] ~= '' then first = entries_before(schedules, '0', ARGV[2] .. '\0') end
local names = redis.call('ZRANGE', schedules, first, first + most - 1)
local reply = {#names == most and names[most] or ''}
for _, name in ipairs(names) do
  local source = redis.pcall('HMGET', buckets .. schedule_id(name), 'source')
  if source[1] == ARGV[1] then reply[#reply + 1] = name end
end
return reply
