-- Checks that come before the first write; shared.

-- An error reply if key is neither absent nor a list, else nil. Asked before
-- the first write, because a script that fails half-way keeps what it wrote.
local function not_a_list(key)
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= 'list' then
    return redis.error_reply('WRONGTYPE ready queue ' .. key .. ' is a ' .. type .. ', not a list')
  end
end

-- Whether a pcall's reply is an error that says nothing about the key, such as
-- a permission that is missing. WRONGTYPE does: there is no usable key then.
local function refused(reply)
  return type(reply) == 'table' and reply.err and string.sub(reply.err, 1, 9) ~= 'WRONGTYPE'
end

-- An error reply if the command is not permitted, else nil; asked before the
-- first write too. Redis before 7.0 doesn't tell.
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
