-- fsck_twice: finds IDs that are in a topic's queue more than once, and removes all but the next entry of each if asked to.
--
-- KEYS[1] job pool   ARGV[1] the topic   ARGV[2] REPAIR, or '' to change nothing   ARGV[3…] IDs
-- Returns {took, id, 1 if it was repaired, …}: the script's own time (µs), and the IDs.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because entries come and go. Cost: O(the queue) for each ID. Of a queue of more than MAX_WALK entries only the next ones are
-- read, and nothing is repaired.
-- include: guard time cluster
local FIRST = 3
local MAX_WALK = 20000
local watch, queue, parked, repairs = stopwatch(), queues .. ARGV[1], parked_queues .. ARGV[1], ARGV[2] == REPAIR
if repairs then
  local err = not_writable() or not_permitted('LREM', queue, '0', '') or elsewhere(queue)
  if err then return err end
end

-- The number of the ID's entries, and whether the list is short enough to walk.
local function count(list, id)
  local found = redis.pcall('LPOS', list, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', MAX_WALK)
  if found.err then return 0, false end
  return #found, redis.call('LLEN', list) <= MAX_WALK
end

local reply = {0}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local ready, is_short = count(queue, id)
  local later, is_short_too = count(parked, id)
  if ready + later > 1 then
    local repaired = repairs and is_short and is_short_too
    if repaired then
      local stay = later > 0 and 0 or 1 -- parked jobs come first
      if ready > stay then redis.call('LREM', queue, ready - stay, id) end
      if later > 1 then redis.call('LREM', parked, later - 1, id) end
    end
    reply[#reply + 1], reply[#reply + 2] = id, repaired and 1 or 0
  end
end
reply[1] = watch()
return reply
