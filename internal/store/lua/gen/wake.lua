-- wake: wakes the next waiters of some topics, when the client that was woken has no use for their jobs.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
      local parked_queues = prefix .. 'paused_queue:'
      local pauses = prefix .. 'paused'
      local function is_parked(topic, reply)
        return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
      end
      if not is_parked(topic, first) then return false, first.err end
      local queue, parked = queues .. topic, parked_queues .. topic
      for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
        waking_left = waking_left - 1
        local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end
      end
      return false
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
local throttled_waiters = prefix .. 'throttled_waiters:'
local function wake_throttled(topic)
  if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if jobs == 0 then
    local paused_waiters = prefix .. 'paused_waiters:'
    local WAITING_FOR = 3600000
    local function end_throttling(topic)
      local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
      if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
      for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
      if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
    end
    end_throttling(topic)
  end
  while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', throttled_waiters .. topic)
    if not first[1] then
      return wake(topic, jobs)
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if receivers ~= 0 then return type(receivers) == 'number' end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
for _, topic in ipairs(ARGV) do
  local length = redis.pcall('LLEN', queues .. topic)
  if type(length) == 'number' and length > 0 and not wake(topic, length) then wake_throttled(topic) end
end
