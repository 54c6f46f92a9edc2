-- fsck_set: checks a page of a set that lists jobs, besides the pool and the queues: a topic's dead letters, or the schedules. It repairs
-- the page if asked to.
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
local REPAIR = 'repair'
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_lists = prefix .. 'dead_letters:'
local schedules = prefix .. 'schedules'
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
local buckets = prefix .. 'job_bucket:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local dead_letters = prefix .. 'dead_letter:'
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local SCHEDULE_TOPIC = 'delayer:schedules'
local removed_schedules = prefix .. 'removed_schedules'
local RETURN_IDS = 'ids'
local watch, which, topic, repairs = stopwatch(), ARGV[1], ARGV[2], ARGV[5] == REPAIR
local set = ({dead = dead_lists .. topic, schedules = schedules})[which]
if repairs then
  local err = not_permitted('ZREM', set, '') or elsewhere(buckets)
  if err then return err end
end
local page = redis.pcall('ZSCAN', set, ARGV[3], 'COUNT', ARGV[4])
if page.err then return unreadable(page) and page or {watch(), '0', {}, {}} end
local ids, findings = {}, {}

-- Each returns the problem with an entry and its repair, or an error reply.
local checks = {}

function checks.dead(id)
  local owner = redis.pcall('HGET', dead_letters .. id, 'topic')
  if unreadable(owner) then return owner end
  if owner ~= topic then return 'dead_entry_without_letter', function() unlist(topic, id) end end
end

function checks.schedules(name)
  local id = schedule_id(name)
  local s = redis.pcall('HMGET', buckets .. id, 'topic', 'revision')
  if unreadable(s) then return s end
  if s[1] ~= SCHEDULE_TOPIC or not s[2] then
    return 'schedule_without_job', function()
      redis.call('ZREM', set, name)
      redis.pcall('ZADD', removed_schedules, 0, name)
    end
  end
end

local to_repair = {}
for i = 1, #page[2], 2 do
  local entry = page[2][i]
  local kind, repair = checks[which](entry)
  if type(kind) == 'table' then return kind end
  if ARGV[6] == RETURN_IDS then ids[#ids + 1] = entry end
  if kind then
    to_repair[#to_repair + 1] = repair
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, entry, repairs and 1 or 0
  end
end
for _, repair in ipairs(repairs and to_repair or {}) do repair() end
return {watch(), page[1], ids, findings}
