-- remove: removes jobs in any state, reserved ones too, or, if an ID has no job, its dead letter. A push of the ID counts again.
--
-- KEYS[1] job pool; then of each job its bucket and its dead letter, which seldom exists: so Redis refuses the call before it starts while
--   the slot moves to another node of a cluster
-- ARGV of each job its ID, none twice, and '1' to leave it alone while it is reserved, else '0'
-- Returns nil if all jobs were waiting, and are removed. Else {position, what, position, what, …} of the others: WAS_READY, WAS_RESERVED,
-- WAS_DEAD, it was in that state, and is removed; IS_RESERVED, it is left alone; NOT_FOUND; LATER, it is ready, and for another call, as this
-- one has searched a ready queue, which is slow; or the error, a text.
-- Errors: NOPERM. Nothing has changed then.
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool for each job; for one that is ready also O(its queue), 10,000 entries at most.
-- include: guard lease
local call, pcall = redis.call, redis.pcall
local err = not_permitted('ZREM', pool, '')
if err then return err end
local told, rest = {}, nil
for i = 1, #ARGV / 2 do
  local id, bucket = ARGV[2 * i - 1], KEYS[2 * i]
  local topic = pcall('HGET', bucket, 'topic')
  local waits = call('ZSCORE', pool, id)
  local job -- what is left to do for it: {position, topic, whether it was removed, whether it had a slot}
  if type(topic) == 'table' then
    told[#told + 1], told[#told + 2] = i, topic.err
  elseif waits then
    local reserved, has_slot = topic and is_lease(waits) and call('HGET', bucket, 'lease'), nil
    local stays = reserved and ARGV[2 * i] == '1'
    if reserved then told[#told + 1], told[#told + 2] = i, stays and IS_RESERVED or WAS_RESERVED end
    if not stays then
      -- Bucket first: an entry that is left behind means nothing without it.
      local removed = call('DEL', bucket)
      pcall('ZREM', once, id)
      call('ZREM', pool, id)
      if reserved then
        local count = pcall('HINCRBY', reserved_counts, topic, '-1')
        count = type(count) == 'number' and count
        if count and count <= 0 then pcall('HDEL', reserved_counts, topic) end
        has_slot = count and count >= HAS_SLOTS
      end
      if removed == 0 or has_slot then job = {i, topic, removed == 1, has_slot} end
    end
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

-- include: dead: unlist; go: LATER NOT_FOUND WAS_DEAD WAS_READY; keys: slots; queue: withdraw; throttle: wake_throttled
local withdrawn
for _, job in ipairs(rest) do
  local i, topic, removed, had_slot = job[1], job[2], job[3], job[4]
  local id, letter = ARGV[2 * i - 1], KEYS[2 * i + 1]
  local what
  if had_slot then
    pcall('ZREM', slots .. topic, id)
    wake_throttled(topic)
  elseif topic and removed == nil then -- it is ready
    if withdrawn then
      what = LATER
    else
      removed, withdrawn, what = call('DEL', KEYS[2 * i]) == 1, true, WAS_READY
      pcall('ZREM', once, id)
      withdraw(topic, id)
    end
  end
  if not removed and what ~= LATER then
    pcall('ZREM', once, id)
    local dead = call('HGET', letter, 'topic')
    if dead then
      call('DEL', letter)
      unlist(dead, id)
    end
    what = dead and WAS_DEAD or NOT_FOUND
  end
  if what then told[#told + 1], told[#told + 2] = i, what end
end
return told
