-- Shared.

-- Tells consumers that a topic's ready queue has jobs, so many. A channel that may not be
-- written to is no reason to fail: consumers look by themselves, too.
local function tell_ready(channel, length)
  redis.pcall('PUBLISH', channel, string.format('%d', length))
end

-- Passes an ID on to the ready queue of the topic that it belongs to, or else to the pool. The names of
-- queues and channels begin with the two in front.
local function pass_on(pool, queues, channels, id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    tell_ready(channels .. topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end
