-- What a script asks before its first write, as one that fails half-way keeps what it wrote. Each returns an error reply, or nil if
-- all is well.

-- Whether the command is not permitted. Redis before 7.0 does not tell.
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end

-- Whether this user, or this server, can't write to the pool. Else what is taken out of it can be put back. That Redis is full is no
-- reason: a script that has written is not refused for that.
-- include: keys: pool
local function not_writable()
  -- XX, GT and -inf: nothing changes, whatever is in the pool.
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end

-- Whether this server takes no writes: then an empty queue may not be empty elsewhere.
local function takes_no_writes(queue)
  local reply = redis.pcall('RPOP', queue, 0) -- takes nothing
  if type(reply) ~= 'table' or not reply.err then return nil end
  for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
    if string.find(reply.err, reason, 1, true) then return reply end
  end
end

-- Whether a pcall's reply says that a cluster's node does not have the key; then that reply.
-- cluster: local function not_here(reply)
-- cluster:   return type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) and reply
-- cluster: end

-- Whether the slot moves to another node, and the key is not here, any more or yet: it can't be written to. Asked before a job is
-- taken from where it may have to be put back. The name of a key that never exists tells whether the slot moves at all.
-- cluster: -- include: not_here
-- cluster: local function elsewhere(key)
-- cluster:   return not_here(redis.pcall('EXISTS', key))
-- cluster: end

-- Whether a ready queue is neither absent nor a list.
local function not_a_list(queue)
  local type = redis.call('TYPE', queue).ok
  if type ~= 'none' and type ~= 'list' then
    return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. type .. ', not a list')
  end
end

-- Whether a pcall's reply says that Redis does not let us read a key. A key of the wrong type can be read, but is of no use.
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Whether no bucket can be read at all; nil if it is a matter of one key.
-- include: unreadable; keys: pool
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
