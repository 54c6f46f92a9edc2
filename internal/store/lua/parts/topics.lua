-- The known topics: one zset says when a topic was used last, another one until when a job
-- of it may wait.

local USED_EACH = 60    -- s; times of use are rounded down to that, so that few calls write one

-- include: USED_EACH
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end

-- Enters that a job of the topic waits, if that is for long. Times are in Unix s. A permission that is
-- missing is no reason to fail: the topic is not counted meanwhile, that is all.
-- include: used_at; keys: known_topics topics_due; go: SOON
local function enter_wait(topic, seconds, due)
  if due - seconds > SOON then
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
    redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic)
  end
end

-- Enters that a job of the topic was stored, which is due at that time.
-- include: used_at enter_wait; keys: known_topics; go: SOON
local function enter_use(topic, seconds, due)
  if due - seconds > SOON then
    enter_wait(topic, seconds, due)
  else
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  end
end
