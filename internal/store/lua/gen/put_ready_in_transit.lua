-- put_ready_in_transit: puts the next jobs of a ready queue in transit to another partition; jobs that stay go to the queue's end. A batch
-- that is in transit already is returned instead.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local transit = prefix .. 'set_aside'
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
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
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
local buckets = prefix .. 'job_bucket:'
local queues = prefix .. 'ready_queue:'
local parked_queues = prefix .. 'paused_queue:'
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
local batch_bytes, batched = 0, 0
local BATCH_BYTES = 256 * 1024
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
local FIRST = 2
local queue = KEYS[2]
local reply = {0, 0, 0, {}}
if redis.call('HLEN', transit) > 0 then return tell_batch(reply, true) end

local err = not_a_list(queue) or no_transit() or not_permitted('LTRIM', queue, '0', '0') or not_permitted('RPUSH', queue, '')
  or not_permitted('LPUSH', queue, '') or elsewhere(transit_jobs)
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local leave_until, known = FIRST + ARGV[1] - 1, {}
for i = FIRST, #ARGV do known[ARGV[i]] = i <= leave_until and 'leaves' or 'stays' end

-- Whether the entry leaves the queue: as a job in transit, or because it is no ready job of this topic.
local function leaves(id)
  local bucket = buckets .. id
  local topic = redis.pcall('HGET', bucket, 'topic')
  if type(topic) ~= 'string' or redis.call('ZSCORE', pool, id) then return true end
  if queues .. topic ~= queue and parked_queues .. topic ~= queue then
    pass_on(id, topic)
    return true
  end
  if batch_bytes > BATCH_BYTES then return false end
  add_hash(bucket, 'r' .. id, batched)
  drop_old_lease(transit_jobs .. 'r' .. id)
  return true
end

local count = #ARGV - FIRST + 1
local window = redis.call('LRANGE', queue, -count, -1)
local first, to_end = {}, {} -- what stays where it is, and what goes to the end, the next first
for i = #window, 1, -1 do
  local id = window[i]
  if known[id] == 'stays' then
    to_end[#to_end + 1] = id
  elseif not known[id] or not leaves(id) then
    first[#first + 1] = id
  end
end
if #first < #window then
  redis.call('LTRIM', queue, 0, -#window - 1)
  for i = #first, 1, -1 do redis.call('RPUSH', queue, first[i]) end
  for i = 1, #to_end do redis.call('LPUSH', queue, to_end[i]) end
end
reply[3] = #window - #first
if batched == 0 then return reply end
return tell_batch(reply, false)
