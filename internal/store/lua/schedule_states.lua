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
-- include: place: entries_before; schedule: schedule_id
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
