-- paused: reads a page of the paused topics.
--
-- KEYS[1] job pool   ARGV[1] 0 to begin, or next of the last call
-- Returns {next, topic, since, until, throttled since, until, note, …}: ARGV[1] of the next call, 0 at the end; the rest as in read_pause,
-- 0 for what is over. A topic whose pause is over is left out; the next server ends it. A topic may appear twice.
-- Errors: WRONGTYPE, NOPERM.
-- One script so that entries and time match. Cost: O(entries of the page).
-- include: pause time
local PAGE = 200
if redis.call('HLEN', pauses) == 0 then return {'0'} end
local page = redis.call('HSCAN', pauses, ARGV[1], 'COUNT', PAGE)
local reply, entries = {page[1]}, page[2]
for i = 1, #entries, 2 do
  local p = read_pause(entries[i + 1])
  if p and paused_until(p) > now then
    if p.ends > 0 and p.ends <= now then p.since, p.ends, p.note = 0, 0, '' end
    if p.throttle_ends <= now then p.throttled, p.throttle_ends = 0, 0 end
    for _, value in ipairs({entries[i], string.format('%.0f', p.since), string.format('%.0f', p.ends), string.format('%.0f', p.throttled),
      string.format('%.0f', p.throttle_ends), p.note}) do
      reply[#reply + 1] = value
    end
  end
end
return reply
