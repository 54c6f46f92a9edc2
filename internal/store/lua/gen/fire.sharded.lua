local pool = KEYS[1]
local prefix = string.match(pool, '^(.*)job_pool$') or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local queues = prefix .. 'ready_queue:'
local waiters = prefix .. 'waiting:'
local wake_channels = prefix .. 'wake:'
local first_due_channel = prefix .. 'first_due'
local known_topics = prefix .. 'topics'
local topics_due = prefix .. 'topics_due'
local schedules = prefix .. 'schedules'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.ceil(time[2] / 1000)
local now_s = time[1] + time[2] / 1000000
local begun = time[1] * 1000 + math.floor(time[2] / 1000)
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local function not_here(reply)
  return type(reply) == 'table' and reply.err and string.find(reply.err, 'non local key', 1, true) and reply
end
local function elsewhere(key)
  return not_here(redis.pcall('EXISTS', key))
end
local function not_a_list(queue)
  local type = redis.call('TYPE', queue).ok
  if type ~= 'none' and type ~= 'list' then
    return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. type .. ', not a list')
  end
end
local ANNOUNCED = 60000
local function announce(score, wait)
  if wait > ANNOUNCED then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('SPUBLISH', first_due_channel, string.format('%d', wait)) end
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
    local receivers = redis.pcall('SPUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
  end
  return false
end
local DEFAULT_LIFETIME = 604800000
local USED_EACH = 60
local SOON = 1800
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local function enter_wait(topic, seconds, due)
  if due - seconds > SOON then
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
    redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic)
  end
end
local function enter_use(topic, seconds, due)
  if due - seconds > SOON then
    enter_wait(topic, seconds, due)
  else
    redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  end
end
local SCHEDULES = 'delayer:schedules'
local function not_fireable(topic, bucket)
  return not_a_list(queues .. topic) or not_permitted('LPUSH', queues .. topic, '') or not_permitted('PEXPIRE', bucket, '1')
    or not_permitted('HSET', bucket, 'topic', '') or not_permitted('EXISTS', bucket)
end
local USUAL = '0 0 604800000'
local function store_job(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return nil, false end
  local lifetime = DEFAULT_LIFETIME
  if not options or options == USUAL then
    redis.call('HSET', name, 'topic', topic, 'body', content)
  else
    redis.call('HSET', name, 'topic', topic, 'body', content, 'options', options)
    lifetime = tonumber(string.match(options, '^%d+ %d+ (%d+)$')) or lifetime
  end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  enter_use(topic, now / 1000, due / 1000)
  if due <= begun then return redis.call('LPUSH', queues .. topic, id), true end
  redis.call('ZADD', pool, score_of(due), id)
  announce(score_of(due), due - now)
  return nil, true
end
local REMEMBERED = 10
local function remember(past, moments)
  if #moments == 0 then return past or '' end
  local text = table.concat(moments, ' ')
  if past and past ~= '' then text = past .. ' ' .. text end
  local begins, at = {1}, string.find(text, ' ', 1, true)
  while at do
    begins[#begins + 1], at = at + 1, string.find(text, ' ', at + 1, true)
  end
  return string.sub(text, begins[math.max(#begins - REMEMBERED + 1, 1)])
end
-- require: keys time guard pool queue schedule
-- fire: stores the jobs of a schedule that is due, and gives it its next moment.
--
-- KEYS[1] job pool
-- ARGV[1] the schedule's ID   ARGV[2] its revision, and   ARGV[3] the moment that it was due for (Unix ms), as they were read
-- ARGV[4] its next moment (Unix ms), '' if there is none, 'later' if that can't be told   ARGV[5] when it is to be tried again if it can't be fired (Unix ms)
-- ARGV[6] how many moments have no job because they are too late   ARGV[7] and because it is paused
-- ARGV[8…] the last moments, each: when (Unix ms), what (r: it has a job; l, p: it has none), the job's ID, and when that is due (Unix ms)
--
-- Returns {0}: somebody else has fired, changed or removed it, or it is not due; {1, ran, overlapped, why, followed}: it is done, how many moments
-- have a job, and how many have none because the one before is not done; why no waiter could be woken, 'woken' if one was; the ID of the job that
-- the last moment's job follows, '' if it follows none; or {2, why}: it can't be fired, it is due later now.
-- Errors: WRONGTYPE of the pool, a permission that is missing, a server that takes no writes; nothing has changed then.
--
-- Atomic because a moment must have its job exactly if the next one has come.
-- Cost: O(log n) of the pool for each job.
local FIRST, EACH = 8, 4
local id = ARGV[1]
local bucket = buckets .. id
local score = redis.call('ZMSCORE', pool, id)[1]
if not score or score - now_s > 0 then return {0} end

local function put_off(why)
  local err = not_writable()
  if err then return err end
  redis.call('ZREM', pool, id) -- first: a script that has written is not refused at maxmemory
  redis.call('ZADD', pool, score_of(tonumber(ARGV[5])), id)
  return {2, why}
end

local COUNTS, FIRST_COUNT = {'ran', 'overlapped', 'late', 'paused_out'}, 11
local s = redis.pcall('HMGET', bucket, 'topic', 'revision', 'next', 'to', 'content', 'overlap', 'options', 'last', 'past', 'old', unpack(COUNTS))
local missing = elsewhere(bucket)
if missing then return missing end
if s.err then return put_off(s.err) end
if s[1] ~= SCHEDULES or s[2] ~= ARGV[2] then return {0} end
if ARGV[4] == 'later' then return put_off('') end
if s[3] ~= ARGV[3] then return {0} end
if not s[4] or not s[5] then return put_off('ERR the schedule says nothing of its jobs (job bucket ' .. bucket .. ')') end
local topic, content, overlap, options, last = s[4], s[5], s[6], s[7], s[8]
for i = FIRST, #ARGV, EACH do
  missing = missing or elsewhere(buckets .. ARGV[i + 2])
end
missing = missing or elsewhere(queues .. topic) or last and elsewhere(buckets .. last)
if missing then return missing end
local lease, follow
if overlap == 'follow' then
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local DEFAULT_LIFETIME = 604800000
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local FOLLOWED = 43
local function is_followed(text) return text and string.byte(text) == FOLLOWED end
local function as_followed(text) return is_followed(text) and text or '+' .. text end
local CLOCK_SLACK = 500
local function pushed_anew(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME end
  local most, ttr, lifetime = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME
end
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end
local function enter_follower(name, text, topic, body, due, lifetime, most, ttr)
  local attempts, token, lent = read_lease(text)
  local left, needed = lifetime_left(redis.call('PTTL', name), token, lent), math.max(due - now, 0) + lifetime
  redis.call('HSET', name, 'next', string.format('%d %s %s %s %s', due, lifetime, most, ttr, topic), 'next_body', body)
  if left >= 0 and left < needed then
    redis.call('PEXPIRE', name, string.format('%d', needed))
    redis.call('HSET', name, 'lease', as_followed(lease_text(attempts, token, 0, needed)))
  elseif not is_followed(text) then
    redis.call('HSET', name, 'lease', as_followed(text))
  end
end
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_anew(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end
local function follow_last(last, lease, topic, content, options, due)
  local most, ttr, lifetime = read_options(options)
  enter_follower(buckets .. last, lease, topic, content, due, lifetime, most, ttr)
  return as_followed(lease), not is_followed(lease)
end
  lease, follow = lease_of_last(last), follow_last
end
local why_not = type(lease) == 'table' and lease or not_fireable(topic, bucket)
if why_not then return put_off(why_not.err) end

-- The first write says whether Redis is full.
local upcoming, written = ARGV[4] ~= '' and score_of(tonumber(ARGV[4])), nil
if upcoming then
  written = redis.pcall('ZADD', pool, upcoming, id)
else
  written = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
end
if type(written) == 'table' then
  if string.find(written.err, 'OOM ', 1, true) then return put_off(written.err) end
  return written
end
if not upcoming then redis.call('ZREM', pool, id) end
local ran, overlapped, followed, length, moments = 0, 0, '', nil, {}
for i = FIRST, #ARGV, EACH do
  local at, what, job, due = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3])
  if what == 'r' then
    local is_busy = overlap ~= 'allow' and last and redis.call('EXISTS', buckets .. last) == 1
    local has_job = not is_busy
    if not is_busy then
      local queued, stored = store_job(job, topic, content, options, due)
      length, last, has_job = queued or length, job, stored
    elseif lease then
      lease, has_job = follow(last, lease, topic, content, options, due) -- if it has none it takes another one's
      followed = last
    end
    if has_job then ran = ran + 1 end
    if is_busy and not has_job then what, overlapped = 'o', overlapped + 1 end
  end
  moments[#moments + 1] = at .. what .. string.format('%d', math.max(now - at, 0))
end
local fields = {'next', ARGV[4], 'past', remember(s[9], moments), 'last', last or ''}
if s[10] and s[10] ~= '' then fields[#fields + 1], fields[#fields + 2] = 'old', '' end
for i, more in ipairs({ran, overlapped, tonumber(ARGV[6]), tonumber(ARGV[7])}) do
  if more > 0 then
    local count = tonumber(s[FIRST_COUNT + i - 1]) or 0
    fields[#fields + 1], fields[#fields + 2] = COUNTS[i], string.format('%d', count + more)
  end
end
redis.call('HSET', bucket, unpack(fields))
if upcoming then announce(upcoming, ARGV[4] - now) end
local woken, cant_publish
if length then woken, cant_publish = wake(topic, length) end
return {1, ran, overlapped, cant_publish or woken and 'woken' or '', followed}
