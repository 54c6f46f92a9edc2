local pool = KEYS[1]
local prefix = string.match(pool, '^(.*)job_pool$') or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local queues = prefix .. 'ready_queue:'
local waiters = prefix .. 'waiting:'
local wake_channels = prefix .. 'wake:'
local pauses = prefix .. 'paused'
local paused_queues = prefix .. 'paused_queue:'
local paused_waiters = prefix .. 'paused_waiting:'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.ceil(time[2] / 1000)
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local MOST_DEAD = 100
local function wake(topic, jobs)
  for _ = 1, MOST_DEAD do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      local is_paused = first.err and string.find(first.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', prefix .. 'paused', topic)[1]
      if not is_paused then return false, first.err end
      for _ = 1, jobs do
        local id = redis.pcall('LMOVE', queues .. topic, prefix .. 'paused_queue:' .. topic, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end
      end
      return false
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
  end
  return false
end
local function read_pause(text)
  local since, ends, backed_off, backs_on, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), backed_off = tonumber(backed_off), backs_on = tonumber(backs_on), note = note}
end
local function paused_until(p)
  if p.since > 0 and p.ends == 0 then return math.huge end
  return math.max(p.ends, p.backs_on)
end
local function empty_into(from, into, most, side, other)
  for _ = 1, most do
    if type(redis.pcall('LMOVE', from, into, side, other)) ~= 'string' then return end
  end
end
local function hold(topic, most)
  local queue, queue_aside, set = queues .. topic, paused_queues .. topic, waiters .. topic
  if redis.call('TYPE', set).ok == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  redis.pcall('HSET', set, 'paused', '1')
  if redis.pcall('EXISTS', queue) ~= 1 then return end
  if redis.call('EXISTS', queue_aside) == 0 then
    redis.pcall('RENAME', queue, queue_aside)
  else
    empty_into(queue, queue_aside, most, 'RIGHT', 'LEFT')
  end
end
local function release(topic)
  local queue, queue_aside, set = queues .. topic, paused_queues .. topic, waiters .. topic
  if redis.call('TYPE', set).ok == 'hash' then redis.pcall('DEL', set) end
  if redis.call('EXISTS', paused_waiters .. topic) == 1 then redis.pcall('RENAME', paused_waiters .. topic, set) end
  local ready, held = redis.pcall('LLEN', queue), redis.pcall('LLEN', queue_aside)
  if type(ready) ~= 'number' or type(held) ~= 'number' then return end
  if ready > 0 and ready <= held then
    empty_into(queue, queue_aside, ready, 'RIGHT', 'LEFT')
    redis.pcall('RENAME', queue_aside, queue)
  elseif ready > 0 then
    empty_into(queue_aside, queue, held, 'LEFT', 'RIGHT')
  elseif held > 0 then
    redis.pcall('RENAME', queue_aside, queue)
  end
  if ready + held > 0 then wake(topic, ready + held) end
end
local function not_pausable(topic)
  return not_writable() or not_permitted('HSET', pauses, 'a', '') or not_permitted('HDEL', pauses, 'a') or not_permitted('HSET', waiters, 'a', '')
    or not_permitted('DEL', waiters) or not_permitted('RENAME', queues, paused_queues) or not_permitted('RENAME', waiters, paused_waiters)
    or not_permitted('LMOVE', queues, paused_queues, 'RIGHT', 'LEFT') or not_permitted('TYPE', waiters)
end
-- require: keys time guard pause
-- keep_paused: ends the pauses that are over, and sets aside what somebody who doesn't know of the others has made ready.
--
-- KEYS[1] job pool
--
-- Returns {paused, wait, topic, topic, …}: how many topics are paused still; after how long the first pause ends (ms), -1 if none
-- does; and the topics whose pause has ended.
-- Errors: WRONGTYPE of the pool, a permission that is missing; nothing has changed then.
--
-- Any number of servers may do that: the second one finds nothing to do.
-- Atomic because an entry may be in one of both queues only.
-- Cost: O(paused topics), and O(entries that are set aside), at most 1,000; see resume.
local AT_ONCE = 1000
local some = redis.call('HLEN', pauses) > 0
if not some then return {0, -1} end
local err = not_pausable('')
if err then return err end
local entries = redis.call('HRANDFIELD', pauses, 2000, 'WITHVALUES')
local left, wait, ended = 0, math.huge, {}
for i = 1, #entries, 2 do
  local topic, p = entries[i], read_pause(entries[i + 1])
  local ends = p and paused_until(p) or 0
  if ends > now then
    left, wait = left + 1, math.min(wait, ends - now)
    hold(topic, AT_ONCE)
  else
    redis.call('HDEL', pauses, topic)
    release(topic)
    ended[#ended + 1] = topic
  end
end
return {left, wait < math.huge and wait or -1, unpack(ended)}
