-- schedule_states: how some schedules fare; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] the name behind which to look, '' for the beginning   ARGV[2] at how many schedules at most
--
-- Returns {last, active, paused, ended, overdue}: the name with which to go on, '' if there are no more; how many are active, paused, or
-- have no next moment any more; for how long (ms) the next moment of one that is active has been due, 0 if none is.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(1) for each.
-- include: keys: buckets schedules; place: entries_before; schedule: schedule_id
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
