-- set_aside: puts jobs and dead letters in transit to another partition, with what is known of pushes that count once and of groups.
-- Nobody gets them until that partition has adopted them. A batch that is in transit already is told first.
--
-- KEYS[1] job pool   KEYS[2] a topic's dead letters, if the IDs were found there
-- ARGV[1] 'all', reserved jobs with their leases; 'free', these stay; or 'look', nothing changes
-- ARGV[2…] IDs, 1,000 at most; a tag is that of an open group
--
-- Returns {serial, was there, read, reserved, job, job, …}: see tell_batch; how many of the IDs were read, since a batch has about 256
-- KiB at most; and the 1-based places of those that stay as they are reserved. If another batch is in transit, and an ID exists or none
-- was asked for, that is told instead. The serial number is 0 if no job is in transit. 'look' tells the places of the IDs that exist,
-- or are in transit, instead of the reserved ones, and that all were read.
-- Errors: NOPERM, READONLY. Nothing has changed then.
--
-- Atomic because a job must be in transit or what it was, never both or neither.
-- Cost: O(log n) of the pool for each ID; of ready jobs also O(their queues), 10,000 entries in all at most.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local dead_letters = prefix .. 'dead_letter:'
local dead_lists = prefix .. 'dead_letters:'
local once = prefix .. 'once'
local schedules = prefix .. 'schedules'
local groups = prefix .. 'group:'
local aside = prefix .. 'set_aside'
local aside_jobs = prefix .. 'set_aside:'
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
local BATCH_BYTES = 256 * 1024
local batch_bytes, batched = 0, 0
local migration = prefix .. 'migration'
local function tell_batch(reply, was_there)
  local entries = redis.call('HGETALL', aside)
  reply[1], reply[2] = redis.call('HGET', migration, 'serial') or '0', was_there and 1 or 0
  for i = 1, #entries, 2 do
    local entry, name = entries[i], aside_jobs .. entries[i]
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
local function not_settable_aside()
  return not_writable() or all_unreadable() or not_permitted('RENAME', aside_jobs, aside_jobs) or not_permitted('HSET', aside, 'a', '')
    or not_permitted('HSET', migration, 'a', '') or not_permitted('HSTRLEN', aside_jobs, 'body') or not_permitted('HDEL', aside_jobs, 'a')
    or not_permitted('HGETALL', aside_jobs) or not_permitted('PTTL', aside_jobs)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function enter_aside(entry, at)
  if batched == 0 then
    local last = tonumber(redis.call('HGET', migration, 'serial') or 0)
    redis.call('HSET', migration, 'serial', string.format('%.0f', math.max(last + 1, now_us)))
  end
  redis.call('HSET', aside, entry, at)
  batched = batched + 1
end
local function put_aside(name, entry, at)
  redis.call('RENAME', name, aside_jobs .. entry)
  enter_aside(entry, at)
  batch_bytes = batch_bytes + (redis.call('HSTRLEN', aside_jobs .. entry, 'body') or 0) + 2 * #entry
end
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function set_letter_aside(id)
  local topic = redis.pcall('HGET', dead_letters .. id, 'topic')
  if type(topic) ~= 'string' then return end
  local died = redis.pcall('ZSCORE', dead_lists .. topic, id)
  put_aside(dead_letters .. id, 'd' .. id, type(died) == 'string' and died or now)
  unlist(topic, id)
end
local function set_once_aside(id)
  local until_ms = redis.call('ZSCORE', once, id)
  if not until_ms then return end
  redis.call('ZREM', once, id)
  if tonumber(until_ms) > now then enter_aside('o' .. id, until_ms) end
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local CLOCK_SLACK = 500
local function pushed_anew(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local function drop_old_lease(name)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local _, _, _, expires = read_lease(text)
  if pushed_anew(redis.call('PTTL', name), expires) then redis.call('HDEL', name, 'lease', 'options', 'error', 'next', 'next_body') end
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local reserved_counts = prefix .. 'reserved'
local HAS_SLOTS = 1649267441664
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      local slots = prefix .. 'slots:'
      local waiters = prefix .. 'waiting:'
      local held_back = prefix .. 'held_back:'
      local function let_go_on(topic)
        if redis.pcall('EXISTS', held_back .. topic, waiters .. topic) == 0 then return nil end
        local paused_waiters = prefix .. 'paused_waiting:'
        local WAITING_FOR = 3600000
        local function let_wait(topic)
          local all, waiting = redis.pcall('ZPOPMIN', held_back .. topic, 1000), waiters .. topic
          if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
          for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
          if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
        end
        local queues = prefix .. 'ready_queue:'
        local wake_channels = prefix .. 'wake:'
        local MOST_DEAD = 100
        local function wake(topic, jobs, made_ready)
          for _ = 1, MOST_DEAD do
            local first = redis.pcall('ZPOPMIN', waiters .. topic)
            if not first[1] then
              if not first.err then return false end
              local paused_queues = prefix .. 'paused_queue:'
              local pauses = prefix .. 'paused'
              local function is_parked(topic, reply)
                return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
              end
              if not is_parked(topic, first) then return false, first.err end
              local queue, queue_aside = queues .. topic, paused_queues .. topic
              for _ = 1, math.min(jobs, math.max(made_ready or 0, 1000)) do
                local id = redis.pcall('LMOVE', queue, queue_aside, 'RIGHT', 'LEFT')
                if type(id) ~= 'string' then break end
              end
              return false
            end
            local receivers = redis.pcall('SPUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
            if type(receivers) == 'table' then return false, receivers.err end
            if receivers > 0 then return true end
          end
          return false
        end
        local function wake_next(topic)
          local jobs = redis.pcall('LLEN', queues .. topic)
          if type(jobs) ~= 'number' then return false end
          if jobs == 0 then
            let_wait(topic)
            return false
          end
          for _ = 1, 100 do
            local first = redis.pcall('ZPOPMIN', held_back .. topic)
            if not first[1] then return wake(topic, jobs) end
            local receivers = redis.pcall('SPUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
            if receivers ~= 0 then return type(receivers) == 'number' end
          end
          return false
        end
        return wake_next(topic)
      end
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      let_go_on(topic)
    end
  end
end
local entries_to_walk = 10000
local queues = prefix .. 'ready_queue:'
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    local paused_queues = prefix .. 'paused_queue:'
    queue = paused_queues .. topic
  end
end
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local SCHEDULE_TOPIC = 'delayer:schedules'
local function not_here(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) and reply
end
local function elsewhere(key)
  return not_here(redis.pcall('EXISTS', key))
end
local FIRST = 2
local reply = {0, 0, 0, {}}
local waits = redis.call('HLEN', aside) > 0
local some_exist, looks = waits and #ARGV < FIRST, ARGV[1] == 'look'
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local exists = some_exist and not looks or KEYS[2] or redis.call('EXISTS', buckets .. id, dead_letters .. id, groups .. id) > 0 or redis.call('ZSCORE', pool, id)
    or redis.call('ZSCORE', once, id) or waits and (redis.call('HEXISTS', aside, 'w' .. id) + redis.call('HEXISTS', aside, 'r' .. id) + redis.call('HEXISTS', aside, 'd' .. id)
      + redis.call('HEXISTS', aside, 'o' .. id) + redis.call('HEXISTS', aside, 'g' .. id) > 0)
  if exists and looks then reply[4][#reply[4] + 1] = i - FIRST + 1 end
  some_exist = some_exist or exists
end
if looks or not some_exist then
  reply[3] = #ARGV - FIRST + 1
  return reply
end
if waits then return tell_batch(reply, true) end

local missing = elsewhere(aside_jobs)
if missing then return missing end
local err = not_settable_aside() or not_permitted('ZREM', pool, '')
if err then return err end
-- Takes nothing. What comes behind a write is not refused at maxmemory.
redis.call('ZREM', pool, '')

local ended, ended_ids = {}, {} -- leases, by topic, and their jobs
local function set_job_aside(id, place)
  local bucket = buckets .. id
  local topic = redis.pcall('HGET', bucket, 'topic')
  local score = redis.call('ZSCORE', pool, id)
  if type(topic) ~= 'string' then
    if score then redis.call('ZREM', pool, id) end -- an orphan
    return
  end
  local reserved = score and is_lease(score)
  if reserved and ARGV[1] == 'free' then
    reply[4][#reply[4] + 1] = place
    return
  end
  if score then redis.call('ZREM', pool, id) else withdraw(topic, id) end
  if topic == SCHEDULE_TOPIC then redis.call('ZREM', schedules, schedule_name(id) or '') end
  local entry = (score and 'w' or 'r') .. id
  put_aside(bucket, entry, score or batched)
  if reserved then
    ended[topic], ended_ids[#ended_ids + 1] = (ended[topic] or 0) - 1, id
  else
    drop_old_lease(aside_jobs .. entry)
  end
end

-- Sets aside which group takes further pushes, if that is its ID, or its tag. (If it is reserved it takes none, and may stay.)
local function set_group_aside(id)
  local tag = string.match(id, '^{[^}]*}')
  local taking = tag and redis.pcall('HGET', groups .. tag, 'id')
  if type(taking) ~= 'string' or id ~= tag and id ~= taking then return end
  put_aside(groups .. tag, 'g' .. tag, 0)
  if id == tag then set_job_aside(taking) end
end

for i = FIRST, #ARGV do
  if batch_bytes > BATCH_BYTES then break end
  set_job_aside(ARGV[i], i - FIRST + 1)
  set_letter_aside(ARGV[i])
  set_once_aside(ARGV[i])
  set_group_aside(ARGV[i])
  if KEYS[2] then unlist(string.sub(KEYS[2], #dead_lists + 1), ARGV[i]) end -- a letter that is gone
  reply[3] = reply[3] + 1
end
count_reserved(ended, ended_ids)
if batched == 0 then return reply end
return tell_batch(reply, false)
