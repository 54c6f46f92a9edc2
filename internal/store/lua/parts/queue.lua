-- Ready queues, and the clients that wait for their jobs.
--
-- A topic's waiters are a sorted set of clients, scored by since when they wait (Unix µs). The script that finds no job registers its
-- client, so no job can come in between; whatever makes a job ready removes the first client and wakes it on its channel. Clients also
-- poll by themselves, so a missing permission or a full Redis is no failure. During a pause the same commands find out (is_parked):
-- no script has to ask first.
-- include: call

local registered_at -- when (Unix µs)

-- Registers the waiter, which has waited for this long (µs), in the sorted set among, or else as a waiter of the topic. Returns whether it is
-- registered now, and whether it was not before.
local function add_waiter(topic, waiter, waited, among)
  if not registered_at then
    local time = redis.pcall('TIME')
    if time.err then return false, false end
    registered_at = time[1] * 1000000 + time[2]
  end
  local since, set = string.format('%.0f', registered_at - waited), (among or waiters) .. topic
  local added = redis.pcall('ZADD', set, 'NX', since, waiter)
  if type(added) == 'table' then
    -- include: keys: paused_waiters; pause: is_parked
    if is_parked(topic, added) then
      set = paused_waiters .. topic
      added = redis.pcall('ZADD', set, 'NX', since, waiter)
    end
  end
  if type(added) == 'number' then redis.pcall('PEXPIRE', set, WAITING_FOR) end
  return type(added) == 'number', added == 1
end

-- Wakes the client that has waited longest for the topic's jobs. If it does not receive the message, it has died, and the next one is woken.
-- Returns whether one was woken, and Redis's reason if none could be. During a pause it parks the jobs instead: whatever makes a job
-- ready calls wake in the same script, with made_ready if that many must be parked in any case. Servers park the rest.
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
      -- include: keys: parked_queues; pause: is_parked
      if not is_parked(topic, first) then return false, first.err end
      local queue, parked = queues .. topic, parked_queues .. topic
      for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
        waking_left = waking_left - 1
        local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end -- the server tries it too, and reports why
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

-- Puts a job into its ready queue, or in front of all others. Returns an error reply if the queue can't take it. The script calls
-- wake_all at its end.
local lengths = {} -- of such queues, by topic
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
end

local function wake_all()
  for topic, length in pairs(lengths) do wake(topic, length) end
end

-- Passes an ID on to the ready queue of its own topic, or, if that fails, to the pool.
local function pass_on(id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    wake(topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end

-- How many entries of ready queues one call may walk to remove IDs from their middle, as LREM walks the whole list. An ID that stays is
-- dropped by the pop that meets it: the bucket decides what is ready.
local entries_to_walk = 10000

-- Removes an ID from its topic's ready queue, or from its parked jobs; not if the queue is too long, or no list.
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    -- include: keys: parked_queues
    queue = parked_queues .. topic
  end
end
