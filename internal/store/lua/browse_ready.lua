-- browse_ready: some ready jobs of a topic, the next to be delivered first; it changes nothing.
--
-- KEYS[1] job pool   KEYS[2] the topic's ready queue
-- ARGV[1…6] see browse; the place is a number, how many entries are to be delivered before, and an ID
--
-- Returns what browse does; where an entry is, is that number. Of a paused topic it is what is set aside.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- A queue moves on while it is looked at. So the entry of the place is looked for among the
-- first MAX_WALK: where it is now, the page goes on; if it has left, so have those before it.
-- Deeper in the queue the place is taken as it is.
-- Atomic so that entries and content belong together.
-- Cost: O(entries before the page), and O(entries looked at).
-- include: keys: pool buckets paused_queues; browse: job_of browse
local queue = redis.call('EXISTS', paused_queues .. ARGV[1]) == 1 and paused_queues .. ARGV[1] or KEYS[2]
local MAX_WALK, SLACK = 10000, 1000 -- released jobs come back to the front

local function first_entry()
  if ARGV[5] == '' then return 0 end
  local was = tonumber(ARGV[5])
  if was >= MAX_WALK then return was + 1 end
  local found = redis.call('LPOS', queue, ARGV[6], 'RANK', -1, 'COUNT', 0, 'MAXLEN', was + 1 + SLACK)
  local length, now = redis.call('LLEN', queue), -1
  for _, from_left in ipairs(found) do
    local at = length - 1 - from_left
    -- The ID may stand there twice. It is the last one up to where it was: else pages would be
    -- left out, or come again for ever.
    if now < 0 or at <= was then now = at end
  end
  return now + 1
end
local first = first_entry()

local function read(skip, count)
  local last = first + skip
  local entries = redis.call('LRANGE', queue, -last - count, -last - 1)
  local ids, places = {}, {}
  for i = #entries, 1, -1 do
    ids[#ids + 1], places[#places + 1] = entries[i], string.format('%d', last + #ids)
  end
  return ids, places
end

return browse(read, buckets, function(name, _, id)
  return not redis.call('ZSCORE', pool, id) and job_of(name)
end)
