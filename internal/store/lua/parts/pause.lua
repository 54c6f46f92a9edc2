-- Paused topics. Their ready jobs are parked in paused_queue:<topic>, so that no client finds any in the ready queue, even one that does not
-- know pauses. Their waiters are in paused_waiters:<topic>.
-- include: guard queue

-- Whether the topic is paused, by Redis's reply to a command on its waiters: during a pause their key is a hash. See Encodings in
-- docs/wire-format.md.
local function is_parked(topic, reply)
  return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
end

-- Parses an entry of the paused topics; nil if the text is no entry. It has since when and until when an operator has paused the topic (ends
-- is 0 for no end), the same of consumers that throttle it (Unix ms), 0 for neither, and the operator's note.
local function read_pause(text)
  local since, ends, throttled, throttle_ends, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), throttled = tonumber(throttled), throttle_ends = tonumber(throttle_ends), note = note}
end

local function pause_text(p)
  return string.format('%.0f %.0f %.0f %.0f ', p.since, p.ends, p.throttled, p.throttle_ends) .. p.note
end

-- Until when the topic is paused (Unix ms); huge without an end; now or earlier if the pause is over.
local function paused_until(p)
  if p.since > 0 and p.ends == 0 then return math.huge end
  return math.max(p.ends, p.throttle_ends)
end

-- Parks up to most entries of a paused topic's ready queue, the next to be delivered first. Returns how many, and whether there are more; or
-- nil and an error reply.
local function park(topic, most)
  local queue, parked = queues .. topic, parked_queues .. topic
  local ready = redis.pcall('LLEN', queue)
  if type(ready) ~= 'number' or ready == 0 then return 0, false end -- the server reports a broken queue
  if redis.call('EXISTS', parked) == 0 then
    redis.pcall('RENAME', queue, parked)
    return 1, false
  end
  local count = math.min(ready, most)
  for _ = 1, count do
    local moved = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
    if type(moved) ~= 'string' then return nil, moved or nil end
  end
  return count, ready > count
end

-- Stops the delivery of the topic, and parks jobs that programs without pauses have made ready. Returns what park does.
local function hold(topic, most)
  local set = waiters .. topic
  local kind = redis.call('TYPE', set).ok
  if kind == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  if kind ~= 'hash' then redis.pcall('HSET', set, 'paused', '1') end
  return park(topic, most)
end

-- Ends the pause, and wakes the first waiter, once all ready jobs are in one queue. If more than most are both ready and parked, it parks
-- that many and the topic stays paused, which keeps the order. Returns how many it moved, and whether there are more; or nil and an error
-- reply.
local function release(topic, most)
  local queue, parked, set = queues .. topic, parked_queues .. topic, waiters .. topic
  local ready, waiting, moved = redis.pcall('LLEN', queue), redis.pcall('LLEN', parked), 0
  local is_broken = type(ready) ~= 'number' or type(waiting) ~= 'number' -- the server reports it
  if not is_broken and waiting > 0 then
    if waiting <= most and waiting < ready then
      for _ = 1, waiting do
        local entry = redis.pcall('LMOVE', parked, queue, 'LEFT', 'RIGHT')
        if type(entry) ~= 'string' then return nil, entry or nil end
      end
      moved = waiting
    else
      local more
      moved, more = park(topic, most)
      if not moved or more then return moved, more end
      redis.pcall('RENAME', parked, queue)
    end
  end
  redis.call('HDEL', pauses, topic)
  if redis.call('TYPE', set).ok == 'hash' then redis.pcall('DEL', set) end
  if redis.call('EXISTS', paused_waiters .. topic) == 1 then redis.pcall('RENAME', paused_waiters .. topic, set) end
  if not is_broken and ready + waiting > 0 then wake(topic, ready + waiting) end
  return moved, false
end

-- Why this user can't pause topics, or end a pause.
local function not_pausable()
  return not_writable() or not_permitted('HSET', pauses, 'a', '') or not_permitted('HDEL', pauses, 'a')
    or not_permitted('HSET', waiters, 'a', '') or not_permitted('DEL', waiters) or not_permitted('RENAME', queues, parked_queues)
    or not_permitted('RENAME', waiters, paused_waiters) or not_permitted('LMOVE', queues, parked_queues, 'RIGHT', 'LEFT')
    or not_permitted('TYPE', waiters) or not_permitted('EXISTS', waiters)
end
