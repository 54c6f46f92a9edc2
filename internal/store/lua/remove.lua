-- remove: removes jobs in any state, reserved ones too, or, if an ID has no job, its dead letter. A push of the ID counts again.
--
-- KEYS[1] job pool; then of each job its bucket and its dead letter, which seldom exists: so Redis refuses the call before it starts while
--   the slot moves to another node of a cluster
-- ARGV the IDs, none twice
-- Returns {position, why, position, why, …} of the jobs that it did not remove: NOT_FOUND; LATER, it is ready, and for another call, as this
-- one has searched a ready queue, which is slow; or the error, a text.
-- Errors: NOPERM. Nothing has changed then.
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool for each job; for one that is ready also O(its queue), 10,000 entries at most.
-- include: guard lease
local call, pcall = redis.call, redis.pcall
local err = not_permitted('ZREM', pool, '')
if err then return err end
local told, rest = {}, nil
for i = 1, #ARGV do
  local id, bucket = ARGV[i], KEYS[2 * i]
  local topic = pcall('HGET', bucket, 'topic')
  local waits = call('ZSCORE', pool, id)
  local job -- what is left to do for it: {position, topic, whether it was removed, whether it was reserved}
  if type(topic) == 'table' then
    told[#told + 1], told[#told + 2] = i, topic.err
  elseif waits then
    -- Bucket first: an entry that is left behind means nothing without it.
    local removed = call('DEL', bucket)
    pcall('ZREM', once, id)
    call('ZREM', pool, id)
    local reserved -- whether it was reserved in a topic with slots
    if topic and is_lease(waits) then
      reserved = pcall('HINCRBY', reserved_counts, topic, '-1')
      reserved = type(reserved) == 'number' and reserved
      if reserved and reserved <= 0 then pcall('HDEL', reserved_counts, topic) end
      reserved = reserved and reserved >= HAS_SLOTS
    end
    if removed == 0 or reserved then job = {i, topic, removed == 1, reserved} end
  else
    job = {i, topic}
  end
  if job then
    rest = rest or {}
    rest[#rest + 1] = job
  end
end
-- Most calls end here, before the definitions that only ready, dead and missing jobs and slots need.
if not rest then return #told > 0 and told or nil end

-- include: dead: unlist; go: LATER NOT_FOUND; keys: slots; queue: withdraw; throttle: wake_throttled
local withdrawn
for _, job in ipairs(rest) do
  local i, topic, removed, was_reserved = job[1], job[2], job[3], job[4]
  local id, letter = ARGV[i], KEYS[2 * i + 1]
  local why
  if was_reserved then
    pcall('ZREM', slots .. topic, id)
    wake_throttled(topic)
  elseif topic and removed == nil then -- it is ready
    if withdrawn then
      why = LATER
    else
      removed, withdrawn = call('DEL', KEYS[2 * i]) == 1, true
      pcall('ZREM', once, id)
      withdraw(topic, id)
    end
  end
  if not removed and not why then
    pcall('ZREM', once, id)
    local dead = call('HGET', letter, 'topic')
    if dead then
      call('DEL', letter)
      unlist(dead, id)
    else
      why = NOT_FOUND
    end
  end
  if why then told[#told + 1], told[#told + 2] = i, why end
end
return told
