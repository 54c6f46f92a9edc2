-- browse_ready: reads some ready jobs of a topic, the next to be delivered first; of a paused topic, its parked jobs.
--
-- KEYS[1] job pool   KEYS[2] the topic's ready queue
-- ARGV[1…6] as browse (parts/browse.lua); the position is how many entries are delivered before, and an ID
--
-- Returns what browse does, with these positions.
-- Errors: WRONGTYPE, NOPERM.
--
-- The queue moves on between two pages. So the entry at the position is searched for among the first MAX_WALK: the page begins
-- behind it, or at the front if it has left, as those before it have. Deeper in the queue the position is taken as it is.
-- Atomic so that entries and content belong together.
-- Cost: O(entries before the page), and O(entries read).
-- include: browse: job_of browse
local queue = redis.call('EXISTS', parked_queues .. ARGV[1]) == 1 and parked_queues .. ARGV[1] or KEYS[2]
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
