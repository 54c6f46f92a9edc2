-- Ready queues.

-- Clients wait for the jobs of a topic in the zset of its waiters, the one that has waited longest first,
-- by since when (Unix µs). Each has a channel on which it is woken. It enters itself where it finds no
-- job, in the script that has looked, so that no job comes between; and whatever makes a job ready
-- takes the first one out and wakes it, alone. Nothing depends on it: clients look by themselves, too. So what
-- is not permitted, or can't be stored, is no reason to fail.
local MOST_DEAD = 100       -- waiters that one call finds dead

-- While a topic is paused a hash stands where its waiters would, and they wait under another name; see hold. So those
-- who enter and wake clients meet the pause where there is one, and nobody else has to ask. What they do then has no function and no
-- names of its own, which every call would have to make.

local entering -- when (Unix µs)

-- Enters the waiter, which has waited for so long (µs), among those that wait, or among others. Returns whether it stands there now,
-- and whether it did not before.
-- include: entering; go: WAITING_FOR; keys: waiters
local function add_waiter(topic, waiter, waited, among)
  if not entering then
    local time = redis.pcall('TIME')
    if time.err then return false, false end
    entering = time[1] * 1000000 + time[2]
  end
  local since, set = string.format('%.0f', entering - waited), (among or waiters) .. topic
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

-- Wakes the client that has waited longest for the topic's jobs, of which there are so many now. PUBLISH says
-- how many received it: nobody if that client has died, and then it is the next one's turn. Returns whether one was
-- woken, and Redis's reason if none could be. If the topic is paused its jobs are set aside instead: everything that makes
-- a job ready comes here, in the same script, and says how many it has made ready if these may be more than 1,000. What others have put there
-- beyond that, who don't know of the pause, is left to the server.
-- include: MOST_DEAD; keys: queues waiters wake_channels
local function wake(topic, jobs, made_ready)
  for _ = 1, MOST_DEAD do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
      -- include: keys: paused_queues; pause: is_parked
      if not is_parked(topic, first) then return false, first.err end
      local queue, queue_aside = queues .. topic, paused_queues .. topic
      for _ = 1, math.min(jobs, math.max(made_ready or 0, 1000)) do
        local id = redis.pcall('LMOVE', queue, queue_aside, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end -- the server tries it, too, and says why
      end
      return false
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
  end
  return false
end

-- Passes an ID on to the ready queue of the topic that it belongs to, or else to the pool.
-- include: wake; keys: pool queues
local function pass_on(id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    wake(topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end

-- How many entries of ready queues one call may walk over to take IDs out of their middle
-- (LREM walks the whole list). Where that is not enough the ID stays behind, and the pop
-- drops it when it comes to it: the bucket, not the list, says what is ready.
local entries_to_walk = 10000

-- Takes id out of a topic's ready queue, or, where it is not there, out of what is set aside while the topic is paused. From a queue that
-- is too long or no list it is not taken.
-- include: entries_to_walk; keys: queues
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    -- include: keys: paused_queues
    queue = paused_queues .. topic
  end
end
