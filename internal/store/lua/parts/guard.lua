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

-- Whether a ready queue is neither absent nor a list; asks is redis.pcall if it is to be told, too, that this can't be read.
local function not_a_list(queue, asks)
  local kind = (asks or redis.call)('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  return kind.err and kind or redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end

-- Whether a pcall's reply says that Redis does not let us read a key. A key of the wrong type can be read, but is of no use.
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Whether no bucket can be read at all; nil if it is a matter of one key.
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
