-- fsck_set: checks a page of a set that lists jobs, besides the pool and the queues: a topic's dead letters, its slots, the topics with
-- dead letters, or the schedules. It repairs the page if asked to.
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
local slots = prefix .. 'slots:'
local dead_topics = prefix .. 'dead_topics'
local schedules = prefix .. 'schedules'
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
local buckets = prefix .. 'job_bucket:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local dead_letters = prefix .. 'dead_letter:'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local throttled = prefix .. 'held_back:'
local waiters = prefix .. 'waiting:'
local queues = prefix .. 'ready_queue:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local wake_channels = prefix .. 'wake:'
local function wake_throttled(topic)
  if redis.pcall('EXISTS', throttled .. topic, waiters .. topic) == 0 then return nil end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if jobs == 0 then
    local paused_waiters = prefix .. 'paused_waiting:'
    local WAITING_FOR = 3600000
    local function end_throttling(topic)
      local all, waiting = redis.pcall('ZPOPMIN', throttled .. topic, 1000), waiters .. topic
      if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
      for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
      if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
    end
    end_throttling(topic)
  end
  while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', throttled .. topic)
    if not first[1] then
      local function wake(topic, jobs, made_ready)
        while waking_left > 0 do
          local first = redis.pcall('ZPOPMIN', waiters .. topic)
          if not first[1] then
            if not first.err then return false end
            local parked_queues = prefix .. 'paused_queue:'
            local pauses = prefix .. 'paused'
            local function is_parked(topic, reply)
              return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
            end
            if not is_parked(topic, first) then return false, first.err end
            local queue, parked = queues .. topic, parked_queues .. topic
            for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
              waking_left = waking_left - 1
              local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
              if type(id) ~= 'string' then break end
            end
            return false
          end
          local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
          if type(receivers) == 'table' then return false, receivers.err end
          if receivers > 0 then return true end
          waking_left = waking_left - DEAD_COST
        end
        return false
      end
      return wake(topic, jobs)
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if receivers ~= 0 then return type(receivers) == 'number' end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
local function schedule_id(name) return '{' .. name .. '}@schedule' end
local SCHEDULE_TOPIC = 'delayer:schedules'
local removed_schedules = prefix .. 'removed_schedules'
local RETURN_IDS = 'ids'
local watch, which, topic, repairs = stopwatch(), ARGV[1], ARGV[2], ARGV[5] == REPAIR
local set = ({dead = dead_lists .. topic, slots = slots .. topic, dead_topics = dead_topics, schedules = schedules})[which]
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

-- An expired slot is free if the job has no lease.
function checks.slots(id, score)
  local waits, owner = redis.pcall('ZSCORE', pool, id), redis.pcall('HGET', buckets .. id, 'topic')
  if unreadable(waits) or unreadable(owner) then return unreadable(waits) and waits or owner end
  local is_leased = type(waits) == 'string' and is_lease(tonumber(waits)) and owner == topic
  if tonumber(score) > now_us and not is_leased then
    return 'slot_without_lease', function()
      redis.call('ZREM', set, id)
      wake_throttled(topic)
    end
  end
end

function checks.dead_topics(name)
  local exists = redis.pcall('EXISTS', dead_lists .. name)
  if unreadable(exists) then return exists end
  if exists == 0 then return 'dead_topic_index', function() redis.call('ZREM', set, name) end end
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
  local kind, repair = checks[which](entry, page[2][i + 1])
  if type(kind) == 'table' then return kind end
  if ARGV[6] == RETURN_IDS then ids[#ids + 1] = entry end
  if kind then
    to_repair[#to_repair + 1] = repair
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, entry, repairs and 1 or 0
  end
end
for _, repair in ipairs(repairs and to_repair or {}) do repair() end
return {watch(), page[1], ids, findings}
