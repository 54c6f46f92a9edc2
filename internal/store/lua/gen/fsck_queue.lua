-- fsck_queue: checks a page of a topic's ready queue, or of its parked jobs, and repairs it if asked to.
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
local parked_queues = prefix .. 'paused_queue:'
local queues = prefix .. 'ready_queue:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
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
local buckets = prefix .. 'job_bucket:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiting:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
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
local function pass_on(id, topic)
  local length = redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    wake(topic, length)
  else
    redis.pcall('ZADD', pool, 0, id)
  end
end
local MAX_WALK, SEARCHED = 20000, 5000 -- 1.3 ms, 0.2 ms
local watch = stopwatch()
local topic, count, repairs = ARGV[1], tonumber(ARGV[5]), ARGV[6] == REPAIR
local queue = (ARGV[2] == 'parked' and parked_queues or queues) .. topic
local length = redis.pcall('LLEN', queue)
if unreadable(length) then return length end
if type(length) ~= 'number' or length == 0 then return {watch(), 0, '', {}, {}} end
if repairs then
  local err = not_writable() or not_permitted('LSET', queue, '0', '') or not_permitted('LREM', queue, '0', '')
    or not_permitted('LPUSH', queue, '') or elsewhere(queue)
  if err then return err end
end

local left = ARGV[3] == '' and length or tonumber(ARGV[3])
local last = math.max(left - count + 1, 1) -- of the page, from the right end
local page = redis.call('LRANGE', queue, -left - 1, -last)
local first = 1
for i, id in ipairs(page) do
  if id == ARGV[4] then
    first = i + 1
    break
  end
end
local waits = #page > 0 and redis.call('ZMSCORE', pool, unpack(page)) or {}
local owners = {}
for i = first, #page do
  owners[i] = redis.pcall('HGET', buckets .. page[i], 'topic')
  if unreadable(owners[i]) then return owners[i] end
end

local function wrong_with(i)
  if waits[i] then return 'ready_and_waiting' end
  if type(owners[i]) ~= 'string' then return 'entry_without_job' end
  if owners[i] ~= topic then return 'entry_of_other_topic' end
end

local ids, findings, marked, misrouted, anchor = {}, {}, false, {}, ARGV[4]
for i = first, #page do
  local id, kind, repaired = page[i], wrong_with(i), 0
  if not kind then
    ids[#ids + 1], anchor = id, id
  elseif repairs and length <= MAX_WALK then
    redis.call('LSET', queue, -(last + #page - i), '')
    marked, repaired = true, 1
    if kind == 'entry_of_other_topic' then misrouted[#misrouted + 1] = {id, owners[i]} end
  else
    anchor = id
  end
  if kind then
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, id, repaired
  end
end
if marked then redis.call('LREM', queue, 0, '') end
for _, entry in ipairs(misrouted) do
  local is_queued = redis.pcall('LPOS', queues .. entry[2], entry[1], 'MAXLEN', SEARCHED)
  if type(is_queued) ~= 'number' then pass_on(entry[1], entry[2]) end
end
return {watch(), last - 1, anchor, ids, findings}
