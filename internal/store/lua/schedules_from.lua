-- schedules_from: the names of some schedules of one source; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] the source   ARGV[2] the name behind which to look, '' for the beginning   ARGV[3] at how many schedules at most
--
-- Returns {last, name, name, …}: the name with which to go on, '' if there are no more.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(1) for each.
-- include: keys: buckets schedules; place: entries_before; schedule: schedule_id
local first, most = 0, tonumber(ARGV[3])
if ARGV[2] ~= '' then first = entries_before(schedules, '0', ARGV[2] .. '\0') end
local names = redis.call('ZRANGE', schedules, first, first + most - 1)
local reply = {#names == most and names[most] or ''}
for _, name in ipairs(names) do
  local source = redis.pcall('HMGET', buckets .. schedule_id(name), 'source')
  if source[1] == ARGV[1] then reply[#reply + 1] = name end
end
return reply
