-- Checks for a node of a Redis Cluster. Each returns an error reply, or nil or false.

local IN_CLUSTER = false -- loading makes it true for a cluster: see newScript in Go

-- Whether the slot is moving and this node does not have the key, which then can't be written. Asked before a job is taken from a key to
-- which it may have to return. For a key that never exists the answer is whether the slot is moving at all.
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end

-- Whether one of the keys that a pause changes is elsewhere.
local function pause_elsewhere(topic)
  return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(parked_queues .. topic) or elsewhere(waiters .. topic)
    or elsewhere(paused_waiters .. topic)
end
