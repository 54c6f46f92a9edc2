-- What is asked before the first write, because a script that fails half-way keeps what it wrote. Each
-- returns an error reply if something is wrong, else nil.

-- Whether the command is not permitted. Redis before 7.0 doesn't tell.
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end

-- Whether this user, or this server, may not write to the pool. If it may, whatever is taken out of the
-- pool can be put back. That Redis is full is no reason: what has written is not refused for that.
-- include: keys: pool
local function not_writable()
  -- XX, GT and -inf: nothing changes, whatever is in the pool.
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end

-- Whether this server takes no writes: that a queue is empty there does not mean that it is empty.
local function takes_no_writes(queue)
  local reply = redis.pcall('RPOP', queue, 0) -- takes nothing
  if type(reply) ~= 'table' or not reply.err then return nil end
  for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
    if string.find(reply.err, reason, 1, true) then return reply end
  end
end

-- Whether a pcall's reply says that a node of a cluster does not have the key; then that reply.
-- cluster: local function not_here(reply)
-- cluster:   return type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) and reply
-- cluster: end

-- Whether the slot is on its way to another node of the cluster, and the key is not here, any more or yet: it can't be
-- written to. To be asked before a job is taken from where it is to be put there. That may have been the last entry, and then
-- it can't be put back. The name of a key that never is tells whether the slot is on its way at all.
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

-- Whether a pcall's reply says that Redis won't let us read a key. A key of the wrong type can
-- be read, but is no usable one.
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Whether no bucket can be read at all, because of the command or of Redis's state; nil if it is
-- a matter of the one key.
-- include: unreadable; keys: pool
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
