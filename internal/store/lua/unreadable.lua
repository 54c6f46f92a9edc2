-- What can't be read; shared.

-- Whether Redis won't let us read a key. The reply is that of a pcall; a key of the wrong
-- type can be read, but is no usable one.
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- An error reply if no bucket can be read at all, because of the command or of
-- Redis's state; nil if it is a matter of the one key.
local function all_unreadable(pool)
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
