-- schedule: stores or changes a schedule.
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local schedules = prefix .. 'schedules'
local removed_schedules = prefix .. 'removed_schedules'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local SCHEDULE_TOPIC = 'delayer:schedules'
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local now = now_us % 1000 == 0 and begun or begun + 1
local FIELDS = {'body', 'zone', 'to', 'content', 'missed', 'overlap', 'jitter', 'options', 'source'}
local MOST_OLD = 4000 -- bytes; more means that no server has fired it through many changes
local name, next = ARGV[1], ARGV[2]
local id = schedule_id(name)
local bucket = buckets .. id
local was = redis.call('HMGET', bucket, 'topic', 'revision', 'next', 'old', unpack(FIELDS))
if was[1] and not was[2] then return {3, 0} end
if ARGV[12] == 'missing' then
  -- A known schedule without a bucket was removed as a job is.
  if was[1] or redis.call('ZSCORE', schedules, name) or redis.call('ZSCORE', removed_schedules, name) then return {0, 0} end
end
local changed = not was[1]
for i = 1, #FIELDS do changed = changed or was[4 + i] ~= ARGV[2 + i] end
local due, old = next, nil -- when a server fires it
if was[1] and was[3] ~= '' then
  if was[5] == ARGV[3] and was[6] == ARGV[4] then
    next, due = was[3], was[3]
  elseif (tonumber(was[3]) or 1 / 0) <= begun and was[5] and was[6] and #(was[4] or '') < MOST_OLD then
    due, old = was[3], (was[4] or '') .. string.format('%.0f ', math.min(begun, next - 1)) .. next .. ' ' .. was[6] .. ' ' .. was[5] .. '\n'
  end
end
if not changed and redis.call('ZSCORE', pool, id) then return {0, tonumber(next)} end
local err = not_permitted('HSET', bucket, 'topic', '') or not_permitted('ZADD', schedules, '0', '') or elsewhere(buckets)
if err then return err end
redis.call('ZADD', pool, score_of(tonumber(due)), id)
redis.call('ZADD', schedules, 0, name)
redis.pcall('ZREM', removed_schedules, name)
local fields = {'topic', SCHEDULE_TOPIC, 'next', due, 'revision', string.format('%.0f', math.max(now_us, (was[2] or 0) + 1))}
for i = 1, #FIELDS do fields[#fields + 1], fields[#fields + 2] = FIELDS[i], ARGV[2 + i] end
if old then fields[#fields + 1], fields[#fields + 2] = 'old', old end
redis.call('HSET', bucket, unpack(fields))
announce(score_of(tonumber(due)), math.max(due - now, 0))
return {was[1] and 2 or 1, tonumber(next)}
