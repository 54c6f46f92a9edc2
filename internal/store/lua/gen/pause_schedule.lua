-- pause_schedule: pauses a schedule, so that its occurrences have no jobs, or resumes it.
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
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local bucket = buckets .. ARGV[1]
local s = redis.call('HMGET', bucket, 'topic', 'revision', 'paused')
if s[1] ~= SCHEDULE_TOPIC or not s[2] then return 0 end
if (ARGV[2] == 'pause') == (s[3] and true or false) then return 1 end
local err = not_permitted('HDEL', bucket, 'paused')
if err then return err end
redis.call('HSET', bucket, 'revision', string.format('%.0f', math.max(now_us, s[2] + 1)))
if ARGV[2] == 'pause' then redis.call('HSET', bucket, 'paused', string.format('%d', now)) else redis.call('HDEL', bucket, 'paused') end
return 1
