-- Throttled clients: they wait until a topic's limit has a free slot.
-- include: call

-- Makes all of them waiters like others.
local function end_throttling(topic)
  local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
  if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
  for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
  if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
end

-- Wakes the throttled client that has waited longest, or else a waiter, as none was woken while the limit was reached. Without ready jobs, all
-- become waiters. Returns whether one was woken; nil if no client waits.
local function wake_throttled(topic)
  if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if jobs == 0 then
    -- include: throttle: end_throttling
    end_throttling(topic)
  end
  while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', throttled_waiters .. topic)
    if not first[1] then
      -- include: queue: wake
      return wake(topic, jobs)
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if receivers ~= 0 then return type(receivers) == 'number' end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
