-- put_in_transit: puts jobs and dead letters in transit to another partition, with open groups and pushes that count once. They
-- are not delivered until that partition has adopted them. A batch that is in transit already is returned first.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local transit = prefix .. 'set_aside'
local LOOK = 'look'
local buckets = prefix .. 'job_bucket:'
local dead_letters = prefix .. 'dead_letter:'
local groups = prefix .. 'group:'
local once = prefix .. 'once'
local migration = prefix .. 'migration'
local transit_jobs = prefix .. 'set_aside:'
local function tell_batch(reply, was_there)
  local entries = redis.call('HGETALL', transit)
  reply[1], reply[2] = redis.call('HGET', migration, 'serial') or '0', was_there and 1 or 0
  for i = 1, #entries, 2 do
    local entry, name = entries[i], transit_jobs .. entries[i]
    local kind, fields = string.sub(entry, 1, 1), redis.call('HGETALL', name)
    if #fields > 0 or kind == 'o' then
      reply[#reply + 1] = {kind, string.sub(entry, 2), entries[i + 1], redis.call('PTTL', name), fields}
    end
  end
  return reply
end
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local function no_transit()
  return not_writable() or all_unreadable() or not_permitted('RENAME', transit_jobs, transit_jobs)
    or not_permitted('HSET', transit, 'a', '') or not_permitted('HSET', migration, 'a', '') or not_permitted('HSTRLEN', transit_jobs, 'body')
    or not_permitted('HDEL', transit_jobs, 'a') or not_permitted('HGETALL', transit_jobs) or not_permitted('PTTL', transit_jobs)
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local FREE_JOBS = 'free'
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
local SCHEDULE_TOPIC = 'delayer:schedules'
local schedules = prefix .. 'schedules'
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local batch_bytes, batched = 0, 0
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function add_to_batch(entry, at)
  if batched == 0 then
    local last = tonumber(redis.call('HGET', migration, 'serial') or 0)
    redis.call('HSET', migration, 'serial', string.format('%.0f', math.max(last + 1, now_us)))
  end
  redis.call('HSET', transit, entry, at)
  batched = batched + 1
end
local function add_hash(name, entry, at)
  redis.call('RENAME', name, transit_jobs .. entry)
  add_to_batch(entry, at)
  batch_bytes = batch_bytes + (redis.call('HSTRLEN', transit_jobs .. entry, 'body') or 0) + 2 * #entry
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local function drop_old_lease(name)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local _, _, _, expires = read_lease(text)
  if pushed_again(redis.call('PTTL', name), expires) then redis.call('HDEL', name, 'lease', 'options', 'error', 'next', 'next_body') end
end
local BATCH_BYTES = 256 * 1024
local dead_lists = prefix .. 'dead_letters:'
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function take_letter(id)
  local topic = redis.pcall('HGET', dead_letters .. id, 'topic')
  if type(topic) ~= 'string' then return end
  local died = redis.pcall('ZSCORE', dead_lists .. topic, id)
  add_hash(dead_letters .. id, 'd' .. id, type(died) == 'string' and died or now)
  unlist(topic, id)
end
local function take_once(id)
  local until_ms = redis.call('ZSCORE', once, id)
  if not until_ms then return end
  redis.call('ZREM', once, id)
  if tonumber(until_ms) > now then add_to_batch('o' .. id, until_ms) end
end
local reserved_counts = prefix .. 'reserved'
local HAS_SLOTS = 1649267441664
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      local slots = prefix .. 'slots:'
      local throttled = prefix .. 'held_back:'
      local waiters = prefix .. 'waiting:'
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
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      wake_throttled(topic)
    end
  end
end
local FIRST = 2
local reply = {0, 0, 0, {}}
local waits = redis.call('HLEN', transit) > 0
local some_exist, looks = waits and #ARGV < FIRST, ARGV[1] == LOOK
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local exists = some_exist and not looks or KEYS[2] or redis.call('EXISTS', buckets .. id, dead_letters .. id, groups .. id) > 0
    or redis.call('ZSCORE', pool, id) or redis.call('ZSCORE', once, id)
  for kind in string.gmatch(waits and not exists and 'wrdog' or '', '.') do
    exists = exists or redis.call('HEXISTS', transit, kind .. id) == 1
  end
  if exists and looks then reply[4][#reply[4] + 1] = i - FIRST + 1 end
  some_exist = some_exist or exists
end
if looks or not some_exist then
  reply[3] = #ARGV - FIRST + 1
  return reply
end
if waits then return tell_batch(reply, true) end

local err = no_transit() or not_permitted('ZREM', pool, '') or elsewhere(transit_jobs)
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local ended, ended_ids = {}, {} -- leases, by topic, and their jobs
local function take_job(id, place)
  local bucket = buckets .. id
  local topic = redis.pcall('HGET', bucket, 'topic')
  local score = redis.call('ZSCORE', pool, id)
  if type(topic) ~= 'string' then
    if score then redis.call('ZREM', pool, id) end -- an orphan
    return
  end
  local reserved = score and is_lease(score)
  if reserved and ARGV[1] == FREE_JOBS then
    reply[4][#reply[4] + 1] = place
    return
  end
  if score then redis.call('ZREM', pool, id) else withdraw(topic, id) end
  if topic == SCHEDULE_TOPIC then redis.call('ZREM', schedules, schedule_name(id) or '') end
  local entry = (score and 'w' or 'r') .. id
  add_hash(bucket, entry, score or batched)
  if reserved then
    ended[topic], ended_ids[#ended_ids + 1] = (ended[topic] or 0) - 1, id
  else
    drop_old_lease(transit_jobs .. entry)
  end
end

-- Puts the open group in transit whose ID, or tag, this is. (A reserved one is not open, and may stay.)
local function take_group(id)
  local tag = string.match(id, '^{[^}]*}')
  local taking = tag and redis.pcall('HGET', groups .. tag, 'id')
  if type(taking) ~= 'string' or id ~= tag and id ~= taking then return end
  add_hash(groups .. tag, 'g' .. tag, 0)
  if id == tag then take_job(taking) end
end

for i = FIRST, #ARGV do
  if batch_bytes > BATCH_BYTES then break end
  take_job(ARGV[i], i - FIRST + 1)
  take_letter(ARGV[i])
  take_once(ARGV[i])
  take_group(ARGV[i])
  if KEYS[2] then unlist(string.sub(KEYS[2], #dead_lists + 1), ARGV[i]) end -- a letter that is gone
  reply[3] = reply[3] + 1
end
count_reserved(ended, ended_ids)
if batched == 0 then return reply end
return tell_batch(reply, false)
