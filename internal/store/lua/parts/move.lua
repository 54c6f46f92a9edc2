-- Moves one topic's due jobs from the pool to its ready queue.
-- include: lease pool queue time topics

local FIRST = 5    -- place of the first ID
local CHUNK = 3500 -- unpack fails near 8,000, and a job put back takes two places
local TIMED = 64   -- fewer jobs are not timed
local MOST_LATE = 1e12 -- s; of jobs that have always been due

-- Takes and returns what move.lua does. The pool must be writable.
local function move(args)
  local stop = #args >= FIRST + TIMED - 1 and stopwatch()
  local topic, found_at = args[1], tonumber(args[2])
  local queue = queues .. topic
  -- include: cluster: IN_CLUSTER
  if IN_CLUSTER then
    -- include: cluster: elsewhere
    local err = elsewhere(queue)
    if err then return err end
  end
  local put_back, why = 0, ''
  local left = {}
  local length -- of the queue
  local ended, returned, late = 0, 0, 0 -- leases; those of jobs that are ready; s
  local counts, n = nil, 0 -- of the jobs by bucket, 32 * jobs + bucket each; n is 0 if they have one
  local moved_at = found_at + args[3] / 1000000

  -- For jobs with these scores: how many are leases, their total lateness, and the number of counts, which was n. nil if one is not due, or
  -- not in the pool.
  --
  -- The scores rise, so the jobs of a bucket are neighbours, and one comparison per job finds where the bucket ends. (A job that was
  -- rescheduled, but is due, may be counted with its neighbours.)
  local function examine(scores, n)
    local leases, sum = 0, 0
    local several = #args > FIRST
    local bounds
    if several then
      -- include: go: LATENESS_BOUNDS
      bounds = LATENESS_BOUNDS
    end
    local ends, bucket, first = several and 1 / 0 or -1 -- what is late by no more is of another bucket
    for i = 1, #scores do
      local score = scores[i]
      if not score then return nil end
      score = score + 0 -- which reads a string faster than tonumber does
      if score > found_at then return nil end
      local part = score * 1000 % 1 -- see is_lease, whose call would take longer
      if part > 0.0005 and is_lease(score) then leases = leases + 1 end
      local behind = moved_at - score
      sum = sum + behind
      if behind <= ends then
        if bucket then
          counts, n = counts or {0, 0, 0, 0}, n + 1 -- a table that grows takes longer
          counts[n] = 32 * (i - first) + bucket
        end
        first, bucket = i, 1
        while behind > bounds[bucket] do bucket = bucket + 1 end
        ends = bounds[bucket - 1] or -1
      end
    end
    if bucket and (n > 0 or #args - FIRST >= CHUNK) then
      counts, n = counts or {0, 0, 0, 0}, n + 1
      counts[n] = 32 * (#scores - first + 1) + bucket
    end
    return leases, sum, n
  end

  -- The IDs from first to last that still have the score with which they were found, or an earlier one, each once; and their scores. The
  -- positions of the others go to left.
  local function select_due(first, last, scores, found_at, left)
    local due, due_scores, seen = {}, {}, {}
    for i = first, last do
      local id, score = args[i], scores[i - first + 1]
      if not score or score - found_at > 0 or seen[id] then
        left[#left + 1] = i - FIRST + 1
      else
        due[#due + 1], due_scores[#due + 1], seen[id] = id, score, true
      end
    end
    return due, due_scores
  end

  for first = FIRST, #args, CHUNK do
    local last = math.min(first + CHUNK - 1, #args)
    local scores = redis.call('ZMSCORE', pool, unpack(args, first, last))
    local ids, from, to = args, first, last -- as a rule all of them, which spares a copy
    local leases, sum, counted = examine(scores, n)
    -- Out of the pool first: a script that has written is not refused at maxmemory.
    local removed = leases and redis.call('ZREM', pool, unpack(args, first, last))
    if removed ~= to - from + 1 then -- some are not due, have left, or are named twice
      ids, scores = select_due(first, last, scores, found_at, left)
      from, to = 1, #ids
      if not removed and to > 0 then redis.call('ZREM', pool, unpack(ids)) end
      leases, sum, counted = examine(scores, n)
    end
    ended = ended + leases
    if to >= from then
      local pushed = redis.pcall('LPUSH', queue, unpack(ids, from, to))
      if type(pushed) == 'number' then
        length = pushed
        returned, late, n = returned + leases, late + sum, counted
      else
        local entries = {} -- of the pool: score, ID, score, ID, …
        for i = from, to do
          entries[#entries + 1], entries[#entries + 2] = retry_score(args[4], put_back), ids[i]
          put_back = put_back + 1
        end
        redis.call('ZADD', pool, unpack(entries))
        why = pushed.err .. ' (ready queue ' .. queue .. ')'
      end
    end
  end
  if ended > 0 then count_reserved({[topic] = -ended}) end
  if length then
    register_use(topic, moved_at, moved_at)
    local woken, cant_publish = wake(topic, length, #args - FIRST + 1)
    if put_back == 0 then why = cant_publish or woken and 'woken' or '' end
  end
  if late > MOST_LATE then late = MOST_LATE end
  local reply
  if returned > 0 or n > 0 then
    reply = {0, put_back, why, late * 1000000, 1 + n, returned, unpack(counts or {}, 1, n)}
  else
    reply = {0, put_back, why, late * 1000000, 0}
  end
  for i = 1, #left do reply[#reply + 1] = left[i] end
  if stop then reply[1] = stop() end
  return reply
end
