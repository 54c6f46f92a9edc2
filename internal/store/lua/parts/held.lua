-- require: keys queue
-- Those whom the limit of a topic holds back: clients that wait until one of its slots is free.

-- Frees the slots of jobs whose leases have been ended.
local function free_slots(topic, ids)
  redis.pcall('ZREM', slots .. topic, unpack(ids))
end

-- Has them wait as others do.
local function let_wait(topic)
  local all, waiting = redis.pcall('ZPOPMIN', held_back .. topic, 1000), waiters .. topic
  if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = prefix .. 'paused_waiting:' .. topic end
  for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
  if all[1] then redis.pcall('PEXPIRE', waiting, 3600000) end -- see add_waiter
end

-- Wakes the one that has waited longest; if nobody is held back, one who waits for jobs: while the limit was reached they woke nobody.
-- If there are no jobs, all of them wait for some. Returns whether one was woken.
local function let_go_on(topic)
  if redis.pcall('EXISTS', held_back .. topic, waiters .. topic) == 0 then return false end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if type(jobs) ~= 'number' then return false end
  if jobs == 0 then
    let_wait(topic)
    return false
  end
  for _ = 1, 100 do -- see wake
    local first = redis.pcall('ZPOPMIN', held_back .. topic)
    if not first[1] then return wake(topic, jobs) end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if receivers ~= 0 then return type(receivers) == 'number' end
  end
  return false
end
