-- Checks before a script's first write: a script that fails half-way keeps what it has written. Each returns an error reply, or nil.

-- Whether this user may not run the command, or Redis does not know it. Redis before 7.0 can't tell; Redis 8 knows no command with a wrong number of arguments.
local protected = rawget(_G, 'pcall') -- redis.pcall runs commands only
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end

-- Whether this user or this server can't write the pool; if it can, what is taken from the pool can be put back. A full Redis is no
-- obstacle: a script that has written is not refused for it.
local function not_writable()
  -- With XX, GT and -inf it never changes anything.
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end

-- Whether this server takes no writes: what is empty here may not be empty on the master.
local function takes_no_writes(queue)
  local reply = redis.pcall('RPOP', queue, 0) -- removes nothing
  if type(reply) ~= 'table' or not reply.err then return nil end
  for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
    if string.find(reply.err, reason, 1, true) then return reply end
  end
end

-- Whether a ready queue exists and is no list. Another error of TYPE ends the script, unless it is caught, which returns it.
local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end

-- Whether a pcall's reply says that Redis does not let us read the key. A key of the wrong type can be read, but is of no use.
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end

-- Whether no bucket can be read at all; nil if only one key is affected.
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
