-- keep_paused: ends pauses that are over, and parks jobs that programs without pauses have made ready. It takes one call for each page
-- of topics, and more if there is much to park.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local pauses = prefix .. 'paused'
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
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function read_pause(text)
  local since, ends, throttled, throttle_ends, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), throttled = tonumber(throttled), throttle_ends = tonumber(throttle_ends), note = note}
end
local function pause_elsewhere(topic)
  return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(parked_queues .. topic) or elsewhere(waiters .. topic)
    or elsewhere(paused_waiters .. topic)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function paused_until(p)
  if p.since > 0 and p.ends == 0 then return math.huge end
  return math.max(p.ends, p.throttle_ends)
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
local function hold(topic, most)
  local set = waiters .. topic
  local kind = redis.call('TYPE', set).ok
  if kind == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  if kind ~= 'hash' then redis.pcall('HSET', set, 'paused', '1') end
  return park(topic, most)
end
if redis.call('HLEN', pauses) == 0 then return {'', 0, -1} end
local err = not_pausable() or elsewhere(pauses)
if err then return err end
redis.call('HDEL', pauses, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
local page = redis.call('HSCAN', pauses, ARGV[1], 'COUNT', ARGV[2])
local next, entries, entries_left = page[1], page[2], tonumber(ARGV[3])
local wait, ended, has_more = math.huge, {}, false
for i = 1, #entries, 2 do
  local topic, p = entries[i], read_pause(entries[i + 1])
  local is_elsewhere = pause_elsewhere(topic)
  local ends = is_elsewhere and now + 1000 or p and paused_until(p) or 0
  local moved, more = 0, false
  if ends <= now then
    moved, more = release(topic, entries_left)
    if moved and not more then ended[#ended + 1] = topic end
  else
    wait = math.min(wait, ends - now)
    if not is_elsewhere then moved, more = hold(topic, entries_left) end
  end
  if moved then entries_left, has_more = entries_left - moved, has_more or more end
  if entries_left <= 0 and i < #entries - 1 then
    has_more = true
    break
  end
end
if has_more then next = ARGV[1] elseif next == '0' then next = '' end
return {next, redis.call('HLEN', pauses), wait < math.huge and wait or -1, unpack(ended)}
