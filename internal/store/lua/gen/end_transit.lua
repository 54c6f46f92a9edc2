-- end_transit: deletes a batch in transit that the other partitions have adopted.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local migration = prefix .. 'migration'
local transit = prefix .. 'set_aside'
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
local transit_jobs = prefix .. 'set_aside:'
if redis.call('HGET', migration, 'serial') ~= ARGV[1] or redis.call('HLEN', transit) == 0 then return 0 end
local err = not_writable() or not_permitted('DEL', transit) or not_permitted('HSET', migration, 'a', '') or elsewhere(transit_jobs)
if err then return err end
if ARGV[2] - ARGV[1] > 0 then
  redis.call('HSET', migration, 'serial', string.format('%.0f', ARGV[2] + 1))
  return -1
end
for _, entry in ipairs(redis.call('HKEYS', transit)) do redis.call('DEL', transit_jobs .. entry) end
redis.call('DEL', transit)
return 1
