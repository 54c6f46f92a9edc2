-- repair_schedules: puts schedules back into the pool that a server without schedules, like the original's, has moved; and forgets
-- those whose bucket was removed, see unschedule.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local SCHEDULE_TOPIC = 'delayer:schedules'
local schedules = prefix .. 'schedules'
local parked_queues = prefix .. 'paused_queue:'
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local buckets = prefix .. 'job_bucket:'
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
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local function names_behind(name, most)
  local names = redis.call('ZRANGE', schedules, name == '' and '-' or '(' .. name, '+', 'BYLEX', 'LIMIT', 0, most)
  return names, #names == most and names[most] or ''
end
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local removed_schedules = prefix .. 'removed_schedules'
local queue, most = queues .. SCHEDULE_TOPIC, tonumber(ARGV[2])
local all = redis.call('ZCOUNT', schedules, '-inf', '+inf')
local waiting = redis.call('LLEN', queue)
if waiting == 0 and (all == 0 or ARGV[3] == 'moved' and redis.call('LLEN', parked_queues .. SCHEDULE_TOPIC) == 0) then return {all, ''} end
local err = not_writable() or not_permitted('ZREM', schedules, '') or not_permitted('RPOP', queue) or not_permitted('LPUSH', queue, '')
  or not_permitted('HMGET', buckets, 'topic') or not_permitted('ZMSCORE', pool, '') or not_permitted('ZRANGE', schedules, '0', '0')
  or not_permitted('EXISTS', buckets) or elsewhere(buckets)
if err then return err end
local reply = {all, ''}

-- Puts the schedule back if its bucket is one and the pool lacks it. Returns whether it is a schedule; if not, the job's topic.
local function repair(id, name)
  local s = redis.pcall('HMGET', buckets .. id, 'topic', 'revision', 'next')
  if s[1] ~= SCHEDULE_TOPIC or not s[2] then return false, s[1] end
  if s[3] ~= '' and not redis.call('ZMSCORE', pool, id)[1] then
    redis.call('ZADD', pool, score_of(tonumber(s[3])), id)
    reply[#reply + 1] = name
  end
  return true
end

-- A job that was pushed to this topic stays in the queue.
for _ = 1, math.min(waiting, most) do
  local id = redis.call('RPOP', queue)
  local is, topic = repair(id, schedule_name(id) or id)
  if not is and topic then redis.call('LPUSH', queue, id) end
end
local names
names, reply[2] = names_behind(ARGV[1], most)
if #names == 0 then return reply end
local ids, bucket_keys = {}, {}
for i, name in ipairs(names) do
  ids[i] = schedule_id(name)
  bucket_keys[i] = buckets .. ids[i]
end
-- With entry and bucket there is nothing to repair.
local scores, are_whole = redis.call('ZMSCORE', pool, unpack(ids)), redis.call('EXISTS', unpack(bucket_keys)) == #ids
for i, name in ipairs(names) do
  if not (scores[i] and are_whole) and not repair(ids[i], name) then
    redis.call('ZREM', schedules, name)
    redis.pcall('ZADD', removed_schedules, 0, name)
  end
end
return reply
