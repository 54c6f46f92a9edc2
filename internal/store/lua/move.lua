-- move: takes due jobs of one topic out of the pool and puts them into its ready queue.
--
-- KEYS[1] job pool
-- ARGV[1] the topic's ready queue   ARGV[2] the channel on which its jobs are announced
-- ARGV[3] when the jobs were found to be due (Unix seconds)
-- ARGV[4] from when on they are to be tried again if the queue can't take them (Unix ms)
-- ARGV[5] the topic   ARGV[6] the zset of known topics   ARGV[7] the hash of the numbers of
-- reserved jobs   ARGV[8…] job IDs in due order
--
-- Returns {took, put back, why, left, left, …}: took is the script's own time in µs (0 for a few
-- jobs, and where Redis has no clock that runs inside a script); put back is how many jobs the
-- queue could not take, which are in the pool again, due later; why is Redis's reason for that,
-- or, if it is 0, for not having announced the jobs, '' if there is none; left are the 1-based
-- places of the IDs that were not moved because they are no longer in the pool (removed, moved
-- by another server, named twice) or were scheduled anew since they were found.
-- Errors: WRONGTYPE of the pool, a permission that is missing, a server that takes no writes,
-- before anything is written.
--
-- The queue is no key of the call: a user who may not use it gets its jobs put back, too.
-- What is due may be a lease that has ended: that job is not reserved any more.
-- Atomic because a job must be in the pool or in the queue, never in both or in neither.
-- Cost: O(k log n) for k IDs in a pool of n.
local FIRST = 8    -- place of the first ID
local CHUNK = 3500 -- unpack fails near 8,000, and a job put back takes two places
local TIMED = 64   -- fewer jobs are not worth a look at the clock

local stop = #ARGV >= FIRST + TIMED - 1 and stopwatch()
local pool, queue, found_at, retry_from = KEYS[1], ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
local err = not_writable(pool)
if err then return err end
local put_back, why = 0, ''
local reply = {0, put_back, why}
local length -- of the queue
local ended = 0 -- leases

-- Those of the IDs from first to last that have the score with which they were found, or an
-- earlier one, each once; the places of the others.
local function select_due(first, last, scores)
  local due, left, seen, leases = {}, {}, {}, 0
  for i = first, last do
    local id, score = ARGV[i], scores[i - first + 1]
    if not score or score - found_at > 0 or seen[id] then
      left[#left + 1] = i - FIRST + 1
    else
      due[#due + 1], seen[id] = id, true
      if is_lease(score) then leases = leases + 1 end
    end
  end
  return due, left, leases
end

for first = FIRST, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  local scores = redis.call('ZMSCORE', pool, unpack(ARGV, first, last))
  local ids, from, to, left, leases = ARGV, first, last, {}, 0 -- as a rule all of them, which spares a copy
  for i = 1, #scores do
    -- Arithmetic reads a score, which is a string, faster than tonumber does.
    local score = scores[i] and scores[i] + 0
    if not score or score > found_at then
      ids, left, leases = select_due(first, last, scores)
      from, to = 1, #ids
      break
    end
    local part = score * 1000 % 1 -- see is_lease, whose call would take longer
    if part > 0.0005 and is_lease(score) then leases = leases + 1 end
  end
  -- Out of the pool first: a script that has written is not refused at maxmemory.
  if to >= from and redis.call('ZREM', pool, unpack(ids, from, to)) <= to - from then
    ids, left, leases = select_due(first, last, scores) -- an ID is named twice
    from, to = 1, #ids
  end
  ended = ended + leases
  if to >= from then
    local pushed = redis.pcall('LPUSH', queue, unpack(ids, from, to))
    if type(pushed) == 'number' then
      length = pushed
    else
      local entries = {} -- of the pool: score, ID, score, ID, …
      for i = from, to do
        entries[#entries + 1], entries[#entries + 2] = retry_score(retry_from, put_back), ids[i]
        put_back = put_back + 1
      end
      redis.call('ZADD', pool, unpack(entries))
      why = pushed.err .. ' (ready queue ' .. queue .. ')'
    end
  end
  for i = 1, #left do reply[#reply + 1] = left[i] end
end
if ended > 0 then count_reserved(ARGV[7], {[ARGV[5]] = -ended}) end
if length then
  redis.pcall('ZADD', ARGV[6], 'NX', '0', ARGV[5])
  -- For those who wait. To be not permitted to is no failure: they look by themselves, too.
  local announced = redis.pcall('PUBLISH', ARGV[2], length)
  if type(announced) == 'table' and put_back == 0 then why = announced.err end
end
reply[1], reply[2], reply[3] = stop and stop() or 0, put_back, why
return reply
