-- fsck_pool: checks a page of the job pool, and repairs it if asked to.
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
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local schedules = prefix .. 'schedules'
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local buckets = prefix .. 'job_bucket:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local RETURN_IDS = 'ids'
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local SCHEDULE_TOPIC = 'delayer:schedules'
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local watch, repairs = stopwatch(), ARGV[3] == REPAIR
if repairs then
  local err = not_writable() or not_permitted('ZADD', schedules, '0', '') or elsewhere(buckets)
  if err then return err end
end
local page = redis.call('ZSCAN', pool, ARGV[1], 'COUNT', ARGV[2])
local ids, counts, newest, findings = {}, {}, {}, {}

local to_repair = {}
local function find(kind, id, repair)
  findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, id, repairs and 1 or 0
  to_repair[#to_repair + 1] = repair
end

for i = 1, #page[2], 2 do
  local id, score = page[2][i], tonumber(page[2][i + 1])
  local job = redis.pcall('HMGET', buckets .. id, 'topic', 'lease', 'revision')
  if unreadable(job) then return job end
  local topic = job[1]
  if ARGV[4] == RETURN_IDS then ids[#ids + 1] = id end
  if topic and is_lease(score) then
    local _, token = read_lease(job[2])
    counts[topic], newest[topic] = (counts[topic] or 0) + 1, math.max(newest[topic] or 0, token)
  elseif topic == SCHEDULE_TOPIC and job[3] then
    local name = schedule_name(id)
    if name and redis.pcall('ZSCORE', schedules, name) == false then
      find('schedule_unlisted', name, function() redis.call('ZADD', schedules, 0, name) end)
    end
  end
end
for _, repair in ipairs(repairs and to_repair or {}) do repair() end
local leases = {}
for topic, count in pairs(counts) do
  leases[#leases + 1], leases[#leases + 2], leases[#leases + 3] = topic, count, string.format('%.0f', newest[topic])
end
return {watch(), page[1], ids, leases, findings}
