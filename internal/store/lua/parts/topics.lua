-- The known topics: one sorted set has the last use of each topic, another an upper bound of its jobs' due times, and another those that clients
-- of ours push to.

local USED_EACH = 60 -- s; times of use are rounded down to it, so that few calls write one

local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end

-- Registers that a job of the topic was stored, and when it is due (Unix s). No permission is no failure: the topic is then not counted.
local function register_use(topic, seconds, due)
  redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
end

-- The same for a job that a client of ours or a schedule has pushed. Plain jobs of such a topic do not expire unnoticed: see sweep.lua.
local function register_push(topic, seconds, due)
  register_use(topic, seconds, due)
  redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
end

-- The same as register_use for a job that goes on waiting, if that is for long.
local function register_wait(topic, seconds, due)
  if due - seconds > SOON then register_use(topic, seconds, due) end
end
