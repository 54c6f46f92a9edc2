-- fsck_keys: checks keys that SCAN has returned, and repairs them if asked to. fsck_set, fsck_queue and fsck_pool check the contents
-- of sets and queues.
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
local dead_topics = prefix .. 'dead_topics'
local known_topics = prefix .. 'topics'
local USED_EACH = 60
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local SOON = 1800
local topics_due = prefix .. 'topics_due'
local function register_use(topic, seconds, due)
  redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
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
local pauses = prefix .. 'paused'
local waiters = prefix .. 'waiters:'
local queues = prefix .. 'ready_queue:'
local parked_queues = prefix .. 'paused_queue:'
local paused_waiters = prefix .. 'paused_waiters:'
local function not_pausable()
  return not_writable() or not_permitted('HSET', pauses, 'a', '') or not_permitted('HDEL', pauses, 'a')
    or not_permitted('HSET', waiters, 'a', '') or not_permitted('DEL', waiters) or not_permitted('RENAME', queues, parked_queues)
    or not_permitted('RENAME', waiters, paused_waiters) or not_permitted('LMOVE', queues, parked_queues, 'RIGHT', 'LEFT')
    or not_permitted('TYPE', waiters) or not_permitted('EXISTS', waiters)
end
local function park(topic, most)
  local queue, parked = queues .. topic, parked_queues .. topic
  local ready = redis.pcall('LLEN', queue)
  if type(ready) ~= 'number' or ready == 0 then return 0, false end
  if redis.call('EXISTS', parked) == 0 then
    redis.pcall('RENAME', queue, parked)
    return 1, false
  end
  local count = math.min(ready, most)
  for _ = 1, count do
    local moved = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
    if type(moved) ~= 'string' then return nil, moved or nil end
  end
  return count, ready > count
end
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
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
local function release(topic, most)
  local queue, parked, set = queues .. topic, parked_queues .. topic, waiters .. topic
  local ready, waiting, moved = redis.pcall('LLEN', queue), redis.pcall('LLEN', parked), 0
  local is_broken = type(ready) ~= 'number' or type(waiting) ~= 'number'
  if not is_broken and waiting > 0 then
    if waiting <= most and waiting < ready then
      for _ = 1, waiting do
        local entry = redis.pcall('LMOVE', parked, queue, 'LEFT', 'RIGHT')
        if type(entry) ~= 'string' then return nil, entry or nil end
      end
      moved = waiting
    else
      local more
      moved, more = park(topic, most)
      if not moved or more then return moved, more end
      redis.pcall('RENAME', parked, queue)
    end
  end
  redis.call('HDEL', pauses, topic)
  if redis.call('TYPE', set).ok == 'hash' then redis.pcall('DEL', set) end
  if redis.call('EXISTS', paused_waiters .. topic) == 1 then redis.pcall('RENAME', paused_waiters .. topic, set) end
  if not is_broken and ready + waiting > 0 then wake(topic, ready + waiting) end
  return moved, false
end
local SCHEDULE_TOPIC = 'delayer:schedules'
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local limits = prefix .. 'limits'
local once = prefix .. 'once'
local buckets = prefix .. 'job_bucket:'
local KEY_KINDS = {bucket = {'hash', 'job_bucket:'}, ready = {'list', 'ready_queue:'}, waiters = {'zset', 'waiters:'}, slots = {'zset', 'slots:'}, throttled_waiters = {'zset', 'throttled_waiters:'}, letter = {'hash', 'dead_letter:'}, dead = {'zset', 'dead_letters:'}, once = {'hash', 'once_content:'}, parked = {'list', 'paused_queue:'}, paused_waiters = {'zset', 'paused_waiters:'}, group = {'hash', 'group:'}, text = {'string', 'group_text:'}, client = {'list', 'client:'}, zset = {'zset', ''}, hash = {'hash', ''}, string = {'string', ''}}
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local FIRST = 2
local MOVED = 'fsck:'
local GROUP_KEPT = 60000 + 5000 -- ms; a group's hash outlives its due time by a minute
local PARKED = 1000             -- entries of a queue that one call moves
local watch, repairs = stopwatch(), ARGV[1] == REPAIR
local candidates, findings = {}, {}

local function move_away(key)
  local moved = redis.pcall('RENAMENX', key, MOVED .. key)
  return moved == 1
end

local function delete(key) return redis.pcall('DEL', key) == 1 end

local function list_letter(id, topic, died)
  redis.call('ZADD', dead_lists .. topic, died, id)
  redis.call('ZADD', dead_topics, 'NX', died, topic)
  register_use(topic, now_s, 0)
  return true
end

local function end_pause(topic)
  if not_pausable() then return false end
  local _, more = release(topic, PARKED)
  return not more
end

local function is_paused(topic) return redis.call('HEXISTS', pauses, topic) == 1 end

local function check_bucket(id, key)
  local job = redis.call('HMGET', key, 'topic', 'revision', 'next')
  local topic = job[1]
  if not topic then return 'incomplete', move_away end
  if redis.call('ZSCORE', pool, id) then return nil end
  if topic == SCHEDULE_TOPIC and job[2] and schedule_name(id) then
    if not job[3] or job[3] == '' then return nil end
    return 'schedule_without_entry', function() return redis.pcall('ZADD', pool, score_of(tonumber(job[3])), id) == 1 end
  end
  candidates[#candidates + 1], candidates[#candidates + 2] = id, topic
end

local function check_letter(id, key)
  local letter = redis.call('HMGET', key, 'topic', 'died')
  local topic = letter[1]
  if not topic then return 'incomplete', move_away end
  local died = tonumber(letter[2]) or now
  if redis.pcall('ZSCORE', dead_lists .. topic, id) == false then
    return 'dead_letter_unlisted', function() return list_letter(id, topic, string.format('%d', died)) end
  end
end

local function check_queue(topic)
  if topic == SCHEDULE_TOPIC or redis.call('ZSCORE', known_topics, topic) then return nil end
  return 'unknown_topic', function()
    register_use(topic, now_s, 0)
    return true
  end
end

local function check_parked(topic)
  if not is_paused(topic) then return 'parked_without_pause', function() return end_pause(topic) end end
  return check_queue(topic)
end

local function check_slots(topic)
  local limit = redis.call('HGET', limits, topic)
  if not limit or string.sub(limit, 1, 1) == '-' then return 'unreferenced', delete end
end

local function check_once(id, key)
  if not redis.call('ZSCORE', once, id) or redis.call('PTTL', key) == -1 then return 'unreferenced', delete end
end

local function check_group(_, key)
  local id, left = redis.call('HGET', key, 'id'), redis.call('PTTL', key)
  if (left < 0 or left > GROUP_KEPT) and not (id and redis.call('EXISTS', buckets .. id) == 1) then return 'group_without_job', delete end
end

local function check_lasting(_, key)
  if redis.call('PTTL', key) == -1 then return 'unreferenced', delete end
end

local function check_paused_waiters(topic)
  if not is_paused(topic) then return 'parked_without_pause', function() return end_pause(topic) end end
end

local checks = { -- by kind; of the others only the type is checked
  bucket = check_bucket, letter = check_letter, ready = check_queue, parked = check_parked, slots = check_slots,
  once = check_once, group = check_group, text = check_lasting, client = check_lasting,
  paused_waiters = check_paused_waiters,
}

-- The problem with a key and its repair, or an error reply if it can't be read.
local function check(kind, name, key)
  local found = redis.pcall('TYPE', key)
  if found.err then return found end
  if found.ok == 'none' then return nil end
  if kind == 'waiters' and found.ok == 'hash' then
    if not is_paused(name) then return 'parked_without_pause', function() return end_pause(name) end end
    return nil
  end
  if found.ok ~= KEY_KINDS[kind][1] then return 'wrong_type', move_away end
  if checks[kind] then return checks[kind](name, key) end
end

if repairs then
  local err = not_permitted('RENAMENX', buckets, MOVED .. buckets) or not_permitted('DEL', buckets) or not_permitted('ZADD', known_topics, '0', '')
    or not_permitted('ZADD', dead_lists, '0', '') or elsewhere(buckets)
  if err then return err end
end
local to_repair = {}
for i = FIRST, #ARGV, 2 do
  local kind, name = ARGV[i], ARGV[i + 1]
  local key = prefix .. KEY_KINDS[kind][2] .. name
  local found, repair = check(kind, name, key)
  if type(found) == 'table' then return found end
  if found then
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = found, i + 1, 0
    to_repair[#findings] = function() return repair(key) end
  end
end
if repairs then
  for i = 3, #findings, 3 do findings[i] = to_repair[i]() and 1 or 0 end
end
return {watch(), candidates, findings}
