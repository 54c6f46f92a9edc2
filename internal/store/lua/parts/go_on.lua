-- What becomes of those whom the limit of a topic has held back when it does no more.

-- Has them wait as others do, who wait for jobs.
-- include: keys: waiters held_back paused_waiters; go: WAITING_FOR
local function let_wait(topic)
  local all, waiting = redis.pcall('ZPOPMIN', held_back .. topic, 1000), waiters .. topic
  if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
  for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
  if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
end

-- See let_go_on.
-- include: let_wait; keys: queues wake_channels held_back; queue: wake
local function wake_next(topic)
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
