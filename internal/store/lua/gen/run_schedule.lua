-- run_schedule: stores a job of a schedule now. The next occurrences do not change.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local SCHEDULE_TOPIC = 'delayer:schedules'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local OVERLAP_FOLLOW = 'follow'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local function not_a_list(queue, is_caught)
  local kind = redis.pcall('TYPE', queue)
  if kind.ok == 'none' or kind.ok == 'list' then return nil end
  if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
  return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
end
local queues = prefix .. 'ready_queue:'
local function no_queue(topic)
  return not_a_list(queues .. topic, true) or not_permitted('LPUSH', queues .. topic, '')
end
local function no_bucket(bucket)
  return not_permitted('PEXPIRE', bucket, '1') or not_permitted('HSET', bucket, 'topic', '') or not_permitted('EXISTS', bucket)
end
local IN_CLUSTER = false
local function elsewhere(key)
  local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
  return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
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
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_again(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end
--
local FOLLOWER_BYTE = 43
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local FOLLOWER_MARK = '+'
local function mark_follower(text) return has_follower(text) and text or FOLLOWER_MARK .. text end
local DEFAULT_OPTIONS = '0 0 604800000'
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local function store_follower(name, text, own, topic, body, due, lifetime, options)
  local attempts, token, lent = read_lease(text)
  local left, needed = lifetime_left(redis.call('PTTL', name), token, lent), math.max(due - now, 0) + lifetime
  redis.call('HSET', name, 'next', string.format('%d %d ', due > begun and due or 0, #topic) .. topic .. options, 'next_body', body,
    'options', mark_follower(own or DEFAULT_OPTIONS))
  if left >= 0 and left < needed then
    redis.call('PEXPIRE', name, string.format('%d', needed))
    redis.call('HSET', name, 'lease', mark_follower(lease_text(attempts, token, 0, needed)))
  elseif not has_follower(text) then
    redis.call('HSET', name, 'lease', mark_follower(text))
  end
end
local function follow_last(last, lease, topic, content, options, due)
  local own = redis.call('HMGET', buckets .. last, 'options')[1]
  local _, _, lifetime = read_options(options)
  store_follower(buckets .. last, lease, own, topic, content, due, lifetime, options ~= DEFAULT_OPTIONS and options or '')
  return mark_follower(lease), not has_follower(lease)
end
local function store_bucket(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return false end
  local lifetime = DEFAULT_LIFETIME
  if not options or options == DEFAULT_OPTIONS then
    redis.call('HSET', name, 'topic', topic, 'body', content)
  else
    redis.call('HSET', name, 'topic', topic, 'body', content, 'options', options)
    lifetime = tonumber(string.match(options, '^%d+ %d+ (%d+)')) or lifetime
  end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  return true
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
local pushed_topics = prefix .. 'pushed_topics'
local function register_push(topic, seconds, due)
  register_use(topic, seconds, due)
  redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
end
local REMEMBERED = 10
local function remember(past, occurrences)
  if #occurrences == 0 then return past or '' end
  local text = table.concat(occurrences, ' ')
  if past and past ~= '' then text = past .. ' ' .. text end
  local begins, at = {1}, string.find(text, ' ', 1, true)
  while at do
    begins[#begins + 1], at = at + 1, string.find(text, ' ', at + 1, true)
  end
  return string.sub(text, begins[math.max(#begins - REMEMBERED + 1, 1)])
end
local RUN_NOW = 'n'
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
local id = ARGV[1]
local bucket = buckets .. id
local s = redis.call('HMGET', bucket, 'topic', 'revision', 'to', 'content', 'options', 'past', 'overlap', 'last', 'ran')
if s[1] ~= SCHEDULE_TOPIC or not s[2] then return '' end
local job = ARGV[2] .. string.format('%.0f', now_us)
local full = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
local last = s[7] == OVERLAP_FOLLOW and s[8]
local why_not = type(full) == 'table' and full or no_queue(s[3]) or no_bucket(bucket) or elsewhere(queues .. s[3])
  or elsewhere(buckets .. job) or last and elsewhere(buckets .. last)
local lease = not why_not and last and lease_of_last(last)
if type(lease) == 'table' then why_not = lease end
if why_not then return why_not end
local length, stored
if last and redis.call('EXISTS', buckets .. last) == 1 then
  job = last
  if lease then lease, stored = follow_last(last, lease, s[3], s[4], s[5], begun) end -- it is due at once then
else
  stored = store_bucket(job, s[3], s[4], s[5], begun)
  if stored then
    register_push(s[3], now / 1000, now / 1000)
    length = redis.call('LPUSH', queues .. s[3], job)
  end
end
local ran = (tonumber(s[9]) or 0) + (stored and 1 or 0)
redis.call('HSET', bucket, 'last', job, 'past', remember(s[6], {string.format('%d', now) .. RUN_NOW .. '0'}), 'ran', string.format('%d', ran))
if length then wake(s[3], length) end
return job
