-- paused: reads a page of the paused topics.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local pauses = prefix .. 'paused'
local function read_pause(text)
  local since, ends, throttled, throttle_ends, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), throttled = tonumber(throttled), throttle_ends = tonumber(throttle_ends), note = note}
end
local function paused_until(p)
  if p.since > 0 and p.ends == 0 then return math.huge end
  return math.max(p.ends, p.throttle_ends)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
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
