-- keep_paused: ends pauses that are over, and parks jobs that programs without pauses have made ready. It takes one call for each page
-- of topics, and more if there is much to park.
--
-- KEYS[1] job pool
-- ARGV[1] 0 to begin, or next of the last call   ARGV[2] how many topics, about   ARGV[3] how many entries to move at most
-- Returns {next, paused, wait, topic, …}: ARGV[1] of the next call, the same if this page has more to move, '' at the end; how many topics
-- are paused in all; in how long the first pause of this page ends (ms), -1 if none does; and the topics whose pause has ended.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because an entry must be in one of the two queues. If several servers do this, the second one finds nothing to do.
-- Cost: O(topics of the page + entries moved).
-- include: pause time cluster
if redis.call('HLEN', pauses) == 0 then return {'', 0, -1} end
local err = not_pausable() or elsewhere(pauses)
if err then return err end
redis.call('HDEL', pauses, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
local page = redis.call('HSCAN', pauses, ARGV[1], 'COUNT', ARGV[2])
local next, entries, entries_left = page[1], page[2], tonumber(ARGV[3])
local wait, ended, has_more = math.huge, {}, false
for i = 1, #entries, 2 do
  local topic, p = entries[i], read_pause(entries[i + 1])
  local is_elsewhere = pause_elsewhere(topic)
  local ends = is_elsewhere and now + 1000 or p and paused_until(p) or 0
  local moved, more = 0, false
  if ends <= now then
    moved, more = release(topic, entries_left)
    if moved and not more then ended[#ended + 1] = topic end
  else
    wait = math.min(wait, ends - now)
    if not is_elsewhere then moved, more = hold(topic, entries_left) end
  end
  if moved then entries_left, has_more = entries_left - moved, has_more or more end
  if entries_left <= 0 and i < #entries - 1 then
    has_more = true
    break
  end
end
if has_more then next = ARGV[1] elseif next == '0' then next = '' end
return {next, redis.call('HLEN', pauses), wait < math.huge and wait or -1, unpack(ended)}
