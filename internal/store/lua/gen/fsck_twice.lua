-- fsck_twice: finds IDs that are in a topic's queue more than once, and removes all but the next entry of each if asked to.
local function stopwatch()
  local os = rawget(_G, 'os')
  if os then
    local start = os.clock()
    return function() return math.floor((os.clock() - start) * 1000000) end
  end
  local start = redis.call('TIME')
  return function()
    local stop = redis.call('TIME')
    return (stop[1] - start[1]) * 1000000 + stop[2] - start[2]
  end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local parked_queues = prefix .. 'paused_queue:'
local REPAIR = 'repair'
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local FIRST = 3
local MAX_WALK = 20000
local watch, queue, parked, repairs = stopwatch(), queues .. ARGV[1], parked_queues .. ARGV[1], ARGV[2] == REPAIR
if repairs then
  local err = not_writable() or not_permitted('LREM', queue, '0', '') or elsewhere(queue)
  if err then return err end
end

-- The number of the ID's entries, and whether the list is short enough to walk.
local function count(list, id)
  local found = redis.pcall('LPOS', list, id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', MAX_WALK)
  if found.err then return 0, false end
  return #found, redis.call('LLEN', list) <= MAX_WALK
end

local reply = {0}
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local ready, is_short = count(queue, id)
  local later, is_short_too = count(parked, id)
  if ready + later > 1 then
    local repaired = repairs and is_short and is_short_too
    if repaired then
      local stay = later > 0 and 0 or 1 -- parked jobs come first
      if ready > stay then redis.call('LREM', queue, ready - stay, id) end
      if later > 1 then redis.call('LREM', parked, later - 1, id) end
    end
    reply[#reply + 1], reply[#reply + 2] = id, repaired and 1 or 0
  end
end
reply[1] = watch()
return reply
