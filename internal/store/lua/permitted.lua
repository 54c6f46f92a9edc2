-- Shared.

-- An error reply if the command is not permitted, else nil; asked before the
-- first write. Redis before 7.0 doesn't tell.
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
