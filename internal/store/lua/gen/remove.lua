-- remove: removes jobs in any state, reserved ones too, or, if an ID has no job, its dead letter. A push of the ID counts again.
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local pool = KEYS[1]
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local IS_RESERVED = 11
local WAS_RESERVED = 12
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local once = prefix .. 'once'
local reserved_counts = prefix .. 'reserved'
local HAS_SLOTS = 1649267441664
local call, pcall = redis.call, redis.pcall
local err = not_permitted('ZREM', pool, '')
if err then return err end
local told, rest = {}, nil
for i = 1, #ARGV / 2 do
  local id, bucket = ARGV[2 * i - 1], KEYS[2 * i]
  local topic = pcall('HGET', bucket, 'topic')
  local waits = call('ZSCORE', pool, id)
  local job -- what is left to do for it: {position, topic, whether it was removed, whether it had a slot}
  if type(topic) == 'table' then
    told[#told + 1], told[#told + 2] = i, topic.err
  elseif waits then
    local reserved, has_slot = topic and is_lease(waits) and call('HGET', bucket, 'lease'), nil
    local stays = reserved and ARGV[2 * i] == '1'
    if reserved then told[#told + 1], told[#told + 2] = i, stays and IS_RESERVED or WAS_RESERVED end
    if not stays then
      -- Bucket first: an entry that is left behind means nothing without it.
      local removed = call('DEL', bucket)
      pcall('ZREM', once, id)
      call('ZREM', pool, id)
      if reserved then
        local count = pcall('HINCRBY', reserved_counts, topic, '-1')
        count = type(count) == 'number' and count
        if count and count <= 0 then pcall('HDEL', reserved_counts, topic) end
        has_slot = count and count >= HAS_SLOTS
      end
      if removed == 0 or has_slot then job = {i, topic, removed == 1, has_slot} end
    end
  else
    job = {i, topic}
  end
  if job then
    rest = rest or {}
    rest[#rest + 1] = job
  end
end
-- Most calls end here, before the definitions that only ready, dead and missing jobs and slots need.
if not rest then return #told > 0 and told or nil end

local dead_lists = prefix .. 'dead_letters:'
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local LATER = 7
local NOT_FOUND = 8
local WAS_DEAD = 14
local WAS_READY = 13
local slots = prefix .. 'slots:'
local queues = prefix .. 'ready_queue:'
local entries_to_walk = 10000
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    local parked_queues = prefix .. 'paused_queue:'
    queue = parked_queues .. topic
  end
end
local throttled_waiters = prefix .. 'throttled_waiters:'
local waiters = prefix .. 'waiters:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local wake_channels = prefix .. 'wake:'
local function wake_throttled(topic)
  if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
  local jobs = redis.pcall('LLEN', queues .. topic)
  if jobs == 0 then
    local paused_waiters = prefix .. 'paused_waiters:'
    local WAITING_FOR = 3600000
    local function end_throttling(topic)
      local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
      if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
      for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
      if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
    end
    end_throttling(topic)
  end
  while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', throttled_waiters .. topic)
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
local withdrawn
for _, job in ipairs(rest) do
  local i, topic, removed, had_slot = job[1], job[2], job[3], job[4]
  local id, letter = ARGV[2 * i - 1], KEYS[2 * i + 1]
  local what
  if had_slot then
    pcall('ZREM', slots .. topic, id)
    wake_throttled(topic)
  elseif topic and removed == nil then -- it is ready
    if withdrawn then
      what = LATER
    else
      removed, withdrawn, what = call('DEL', KEYS[2 * i]) == 1, true, WAS_READY
      pcall('ZREM', once, id)
      withdraw(topic, id)
    end
  end
  if not removed and what ~= LATER then
    pcall('ZREM', once, id)
    local dead = call('HGET', letter, 'topic')
    if dead then
      call('DEL', letter)
      unlist(dead, id)
    end
    what = dead and WAS_DEAD or NOT_FOUND
  end
  if what then told[#told + 1], told[#told + 2] = i, what end
end
return told
