-- require: keys
-- Ready queues.

-- Tells consumers that a topic's ready queue has jobs, so many. A channel that may not be
-- written to is no reason to fail: consumers look by themselves, too. Returns Redis's reason then.
local function tell_ready(topic, length)
  local told = redis.pcall('PUBLISH', ready_channels .. topic, string.format('%d', length))
  return type(told) == 'table' and told.err or nil
end

-- Passes an ID on to the ready queue of the topic that it belongs to, or else to the pool.
local function pass_on(id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    tell_ready(topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end

-- How many entries of ready queues one call may walk over to take IDs out of their middle
-- (LREM walks the whole list). Where that is not enough the ID stays behind, and the pop
-- drops it when it comes to it: the bucket, not the list, says what is ready.
local entries_to_walk = 10000

-- Takes id out of a topic's ready queue, unless that is too long or no list.
local function withdraw(topic, id)
  local queue = queues .. topic
  local length = redis.pcall('LLEN', queue)
  if type(length) == 'number' and length > 0 and length <= entries_to_walk then
    entries_to_walk = entries_to_walk - length
    redis.pcall('LREM', queue, 0, id)
  end
end
