-- move: takes due jobs of one topic out of the pool and puts them into its ready queue.
--
-- KEYS[1] job pool   KEYS[2] the topic's ready queue
-- ARGV[…] job IDs in due order
--
-- Returns {took, left, …}: took is the script's own time in µs (0 where Redis
-- has no clock that runs inside a script); left are the 1-based places of the IDs
-- that were not moved, because they are no longer in the pool (removed, or moved by another
-- server) or no longer due (postponed).
-- Errors: WRONGTYPE of the queue, a permission that is missing, before anything is written.
--
-- Atomic because a job must be in the pool or in the queue, never in both or in neither.
-- Cost: O(k log n) for k IDs in a pool of n.
local CHUNK = 4000 -- unpack fails near 8,000

local stop = stopwatch()
local err = not_a_list(KEYS[2]) or not_permitted('LPUSH', KEYS[2], '')
if err then return err end
local reply = {0}
local t = redis.call('TIME')
local now = tonumber(t[1]) + tonumber(t[2]) / 1000000
for first = 1, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  local scores = redis.call('ZMSCORE', KEYS[1], unpack(ARGV, first, last))
  local places = #reply
  for i = first, last do
    local due = scores[i - first + 1]
    -- Arithmetic reads a score, which is a string, faster than tonumber does.
    if not due or due - now > 0 then reply[#reply + 1] = i end
  end
  local ids, from, to = ARGV, first, last -- as a rule all of them, which spares a copy
  if #reply > places then
    ids = {}
    for i = first, last do
      if reply[places + 1] == i then places = places + 1 else ids[#ids + 1] = ARGV[i] end
    end
    from, to = 1, #ids
  end
  if to >= from then
    -- Out of the pool first: a script that has written is not refused at maxmemory.
    redis.call('ZREM', KEYS[1], unpack(ids, from, to))
    redis.call('LPUSH', KEYS[2], unpack(ids, from, to))
  end
end
reply[1] = stop()
return reply
