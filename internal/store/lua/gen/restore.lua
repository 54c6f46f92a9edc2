-- restore: stores jobs, dead letters, schedules and what Once remembers, as another installation has exported them. What exists is skipped.
local LOOK = 'look'
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
local buckets = prefix .. 'job_bucket:'
local dead_letters = prefix .. 'dead_letter:'
local dead_lists = prefix .. 'dead_letters:'
local schedules = prefix .. 'schedules'
local once = prefix .. 'once'
local groups = prefix .. 'group:'
local once_contents = prefix .. 'once_content:'
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local FOLLOWER_BYTE = 43
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local FOLLOWER_MARK = '+'
local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local DEAD = 'dead'
local ONCE = 'once'
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end
local SCHEDULE = 'schedule'
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
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
local pushed_topics = prefix .. 'pushed_topics'
local function register_push(topic, seconds, due)
  register_use(topic, seconds, due)
  redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
end
local WAITING = 'waiting'
local queues = prefix .. 'ready_queue:'
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
end
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
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
local function wake_all()
  for topic, length in pairs(lengths) do wake(topic, length) end
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local FIRST, CHUNK = 2, 1000 -- unpack fails near 8,000
local looks = ARGV[1] == LOOK
local reply, first_due = {}, math.huge
local err = not looks and (not_writable() or not_permitted('HSET', buckets, 'topic', '') or not_permitted('PEXPIRE', buckets, '1')
  or not_permitted('HSET', dead_letters, 'topic', '') or not_permitted('ZADD', dead_lists, '0', '') or not_permitted('ZADD', schedules, '0', '')
  or not_permitted('HGET', buckets, 'topic') or not_permitted('ZSCORE', once, '') or not_permitted('PTTL', once)
  or not_permitted('ZADD', once, '0', '') or not_permitted('HSET', groups, 'id', '')
  or not_permitted('HSET', once_contents, 'of', '') or elsewhere(buckets))
if err then return err end

local function keep(name, ttl, first, last)
  for some = first, last, CHUNK do redis.call('HSET', name, unpack(ARGV, some, math.min(some + CHUNK - 1, last))) end
  if ttl >= 0 then redis.call('PEXPIRE', name, string.format('%d', math.max(ttl, 1))) end
end

-- Ends the lease in the bucket, if there is one: the attempts and the last token stay.
local function end_lease(name, ttl)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local attempts, token = read_lease(text)
  redis.call('HSET', name, 'lease', keep_follower(text, lease_text(attempts, token, 0, ttl)))
end

local function wait(id, at)
  redis.call('ZADD', pool, score_of(at), id)
  if at > now then first_due = math.min(first_due, at) end
end

local i = FIRST
while i <= #ARGV do
  local kind, id, at, ttl, group, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local name = (kind == DEAD and dead_letters or kind == ONCE and once_contents or buckets) .. id
  local first, last = i + 6, i + 5 + n
  i = last + 1
  local is_new
  if kind == ONCE then
    is_new = at > now and not redis.call('ZSCORE', once, id)
  else
    is_new = redis.call('EXISTS', name) == 0
  end
  reply[#reply + 1] = is_new and 1 or 0
  if is_new and not looks then
    keep(name, kind == ONCE and at - now or ttl, first, last)
    local topic = kind ~= ONCE and redis.call('HGET', name, 'topic')
    if kind == ONCE then
      redis.call('ZADD', once, string.format('%d', at), id)
      keep_once(at - now)
    elseif kind == SCHEDULE then
      redis.call('ZADD', schedules, 0, schedule_name(id) or id)
      if at > 0 then wait(id, at) end
    elseif kind == DEAD then
      redis.call('ZADD', dead_lists .. topic, string.format('%d', at), id)
      redis.pcall('ZADD', dead_topics, 'LT', string.format('%d', at), topic)
      register_push(topic, now / 1000, now / 1000)
    else
      end_lease(name, ttl)
      if kind == WAITING or make_ready(topic, id) then wait(id, kind == WAITING and at or now) end
      register_push(topic, now / 1000, kind == WAITING and at / 1000 or now / 1000)
      if group > 0 then
        local open = groups .. string.match(id, '^{[^}]*}')
        redis.call('HSET', open, 'id', id)
        redis.call('PEXPIRE', open, string.format('%d', group))
      end
    end
  end
end
wake_all()
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
return reply
