-- pause: pauses a topic. Its ready jobs are parked, also those that become ready later.
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
local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function pause_elsewhere(topic)
  return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(parked_queues .. topic) or elsewhere(waiters .. topic)
    or elsewhere(paused_waiters .. topic)
end
local function read_pause(text)
  local since, ends, throttled, throttle_ends, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), throttled = tonumber(throttled), throttle_ends = tonumber(throttle_ends), note = note}
end
local PAUSE = 'pause'
local NEW_PAUSE = 'new pause'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local THROTTLE = 'throttle'
local function pause_text(p)
  return string.format('%.0f %.0f %.0f %.0f ', p.since, p.ends, p.throttled, p.throttle_ends) .. p.note
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
local function hold(topic, most)
  local set = waiters .. topic
  local kind = redis.call('TYPE', set).ok
  if kind == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  if kind ~= 'hash' then redis.pcall('HSET', set, 'paused', '1') end
  return park(topic, most)
end
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
local first_due_channel = prefix .. 'first_due'
local AT_ONCE = 1000 -- entries
local TOLD = '1000'  -- ms; by then servers read when the pause ends
local topic, how, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local err = not_pausable() or not_a_list(queues .. topic) or not_a_list(parked_queues .. topic) or pause_elsewhere(topic)
if err then return err end
local text = redis.call('HGET', pauses, topic)
local p = text and read_pause(text)
p = p or {since = 0, ends = 0, throttled = 0, throttle_ends = 0, note = ''}
if how == PAUSE or how == NEW_PAUSE then
  local is_over = p.since == 0 or p.ends > 0 and p.ends <= now
  local is_same = p.ends == 0 and ms == 0 and p.note == ARGV[4]
  if how == NEW_PAUSE and not is_over and not is_same then return 0 end
  if is_over then p.since = now end
  p.ends, p.note = ms > 0 and now + ms or 0, ARGV[4]
elseif how == THROTTLE then
  if p.throttle_ends <= now then p.throttled = now end
  p.throttle_ends = math.max(p.throttle_ends, now + ms)
end
redis.call('HSET', pauses, topic, pause_text(p))
hold(topic, AT_ONCE)
register_use(topic, now / 1000, now / 1000)
redis.pcall('PUBLISH', first_due_channel, TOLD)
return 1
