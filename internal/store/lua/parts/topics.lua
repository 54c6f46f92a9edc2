-- The known topics: one sorted set says when a topic was used last, another one until when a job of it may wait.

local USED_EACH = 60    -- s; times of use are rounded down to that, so that few calls write one

local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end

-- Registers that a job of the topic was stored, which is due then. Times are in Unix s. No permission is no failure: the topic is not counted
-- meanwhile.
local function register_use(topic, seconds, due)
  redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
end

-- The same of one that waits, if that is for long.
local function register_wait(topic, seconds, due)
  if due - seconds > SOON then register_use(topic, seconds, due) end
end
