-- unschedule: deletes a schedule. Its jobs stay.
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local SCHEDULE_TOPIC = 'delayer:schedules'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local schedules = prefix .. 'schedules'
local removed_schedules = prefix .. 'removed_schedules'
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local id = schedule_id(ARGV[1])
local s = redis.call('HMGET', buckets .. id, 'topic', 'revision', 'source')
if s[1] and (s[1] ~= SCHEDULE_TOPIC or not s[2]) or ARGV[2] ~= '' and s[3] ~= ARGV[2] then return 0 end
local by_hand = ARGV[2] == '' and s[3] and s[3] ~= ''
local err = not_permitted('ZREM', pool, id) or not_permitted('ZREM', schedules, ARGV[1])
  or by_hand and not_permitted('ZADD', removed_schedules, '0', '') or elsewhere(buckets)
if err then return err end
local deleted = redis.call('DEL', buckets .. id)
redis.call('ZREM', pool, id)
redis.call('ZREM', schedules, ARGV[1])
if by_hand then redis.call('ZADD', removed_schedules, 0, ARGV[1]) end
return deleted
