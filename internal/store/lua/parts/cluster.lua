-- What only a node of a Redis Cluster asks. Each returns an error reply, or nil if all is well.

-- Whether a pcall's reply says that a cluster's node does not have the key; then that reply.
local function not_here(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) and reply
end

-- Whether the slot moves to another node, and the key is not here, any more or yet: it can't be written to. Asked before a job is
-- taken from where it may have to be put back. The name of a key that never exists tells whether the slot moves at all.
local function elsewhere(key)
  return not_here(redis.pcall('EXISTS', key))
end

-- Whether one of the keys moves to another node of the cluster.
local function pause_elsewhere(topic)
  return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(parked_queues .. topic) or elsewhere(waiters .. topic)
    or elsewhere(paused_waiters .. topic)
end
