-- retry: returns reserved jobs, to be delivered again now or later. One whose attempts are used up becomes a dead letter instead, and its
-- follower takes its place.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
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
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function leased_job(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%+?%d+ (%d+)') == token then return job end
end
local LEASE_LOST = 9
local REFUND = 'refund'
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local IN_CLUSTER = false
local queues = prefix .. 'ready_queue:'
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
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
local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local SOON = 1800
local known_topics = prefix .. 'topics'
local USED_EACH = 60
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local topics_due = prefix .. 'topics_due'
local function register_use(topic, seconds, due)
  redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
end
local function register_wait(topic, seconds, due)
  if due - seconds > SOON then register_use(topic, seconds, due) end
end
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
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
      local throttled_waiters = prefix .. 'throttled_waiters:'
      local waiters = prefix .. 'waiters:'
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
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      wake_throttled(topic)
    end
  end
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
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
local FIELDS = 6
local first_bucket = buckets .. ARGV[2]
local err = not_writable() or not_permitted('ZREM', pool, '') or not_permitted('PEXPIRE', first_bucket, '1')
  or not_permitted('HSET', first_bucket, 'error', '') or not_permitted('PTTL', first_bucket)
if err then return err end
local asked, ended, ids, followers = {}, {}, {}, nil
for i = 2, #ARGV, FIELDS do asked[#asked + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(asked)) -- all at once: the pool may end with the first of them

-- For each job: its fields, or else its result in the reply; and the reason for a dead letter.
local jobs, whats, reasons = {}, {}, {}
for k, id in ipairs(asked) do
  local i = FIELDS * k - 5
  local job, unread = leased_job(scores[k], buckets .. id, ARGV[i], ARGV[i + 2], 'options')
  jobs[k], whats[k] = job, not job and (unread and unread.err or LEASE_LOST) or nil
  if job and ARGV[i + 4] ~= REFUND then
    local limit = read_options(job[3])
    if limit == 0 then limit = tonumber(ARGV[i + 4]) end
    local attempts = limit > 0 and read_lease(job[1])
    if attempts and attempts >= limit then reasons[k] = string.format(attempts == 1 and 'the only attempt used up' or 'all %d attempts used up', attempts) end
  end
  if IN_CLUSTER then -- before the first write, so that the whole call is refused, and tried again
    local function elsewhere(key)
      local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
      return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
    end
    local dead_letters = prefix .. 'dead_letter:'
    local missing = unread and elsewhere(buckets .. id) or ARGV[i + 3] == '0' and elsewhere(queues .. ARGV[i])
      or reasons[k] and elsewhere(dead_letters)
    if missing then return missing end
  end
end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local first_due = math.huge

-- Puts the job at ARGV[i] into the pool, or into its ready queue: in front if it is released.
local function put_back(id, i, job)
  local topic, delay, refund, text, name = ARGV[i], tonumber(ARGV[i + 3]), ARGV[i + 4] == REFUND, ARGV[i + 5], buckets .. id
  local attempts, token, lent = read_lease(job[1])
  local left = lifetime_left(redis.call('PTTL', name), token, lent)
  if left >= 0 then left = left + delay end
  redis.call('HSET', name, 'lease', keep_follower(job[1], lease_text(math.max(refund and attempts - 1 or attempts, 0), token, 0, left)))
  if text ~= '' then redis.call('HSET', name, 'error', text) end
  if left >= 0 then redis.call('PEXPIRE', name, string.format('%d', left)) end
  if delay > 0 then
    redis.call('ZADD', pool, score_of(now + delay), id)
    register_wait(topic, now / 1000, (now + delay) / 1000)
    first_due = math.min(first_due, now + delay)
  else
    redis.call('ZREM', pool, id)
    local refused = make_ready(topic, id, refund)
    if refused then redis.call('ZADD', pool, score_of(now), id) end -- the server reports the reason
  end
end

local reply = {}
for k, id in ipairs(asked) do
  local i, job = FIELDS * k - 5, jobs[k]
  if job and reasons[k] then
    local dead_letters = prefix .. 'dead_letter:'
    local dead_lists = prefix .. 'dead_letters:'
    local dead_topics = prefix .. 'dead_topics'
    local function unlist(topic, id)
      local list = dead_lists .. topic
      redis.pcall('ZREM', list, id)
      if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
    end
    local function bury(id, bucket, topic, reason, text, has_follower)
      local letter, list = dead_letters .. id, dead_lists .. topic
      if has_follower then
        local function not_followable(id, from)
          local name = buckets .. id
          return not_permitted('TIME') or not_permitted('HMGET', from, 'next') or not_permitted('PTTL', from)
            or not_permitted('HDEL', from, 'next') or not_permitted('HSET', name, 'topic', '')
            or not_permitted('HDEL', name, 'lease') or not_permitted('PEXPIRE', name, '1') or not_permitted('DEL', name)
            or not_permitted('ZADD', pool, '0', '') or not_permitted('ZREM', pool, '')
        end
        local function elsewhere(key)
          local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
          return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
        end
        local err = not_followable(id, letter) or elsewhere(buckets)
        if err then return err end
      end
      local was = redis.pcall('HGET', letter, 'topic')
      local listed = redis.pcall('ZADD', list, string.format('%d', now), id)
      if type(listed) == 'table' then
        return redis.error_reply(listed.err .. ' (dead letters ' .. list .. ')')
      end
      local renamed = redis.pcall('RENAME', bucket, letter)
      if renamed.err then
        if was ~= topic then unlist(topic, id) end
        return redis.error_reply(renamed.err .. ' (RENAME to ' .. dead_letters .. '…)')
      end
      if type(was) == 'string' and was ~= topic then unlist(was, id) end
      redis.pcall('HSET', letter, 'reason', reason, 'died', string.format('%d', now))
      if text ~= '' then redis.pcall('HSET', letter, 'error', text) end
      redis.pcall('PERSIST', letter)
      redis.pcall('ZADD', dead_topics, 'NX', string.format('%d', now), topic)
    end
    local EXHAUSTED = 10
    local has_follower = string.byte(job[1]) == FOLLOWER_BYTE
    local failed = bury(id, buckets .. id, ARGV[i], reasons[k], ARGV[i + 5], has_follower)
    whats[k] = failed and failed.err or EXHAUSTED
    if failed then
      job = nil
    else
      redis.call('ZREM', pool, id)
      if has_follower then
        followers = followers or {}
        followers[#followers + 1] = id
      end
    end
  elseif job then
    put_back(id, i, job)
  end
  if job then ended[ARGV[i]], ids[#ids + 1] = (ended[ARGV[i]] or 0) - 1, id end
  if whats[k] then reply[#reply + 1], reply[#reply + 2] = k, whats[k] end
end
count_reserved(ended, ids)
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
wake_all()
if not followers then return reply end

local dead_letters = prefix .. 'dead_letter:'
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local pushed_topics = prefix .. 'pushed_topics'
local function register_push(topic, seconds, due)
  register_use(topic, seconds, due)
  redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
end
local function follow_up(id, from)
  local name = buckets .. id
  local follower = redis.call('HMGET', from, 'next', 'next_body', 'lease')
  local due, length, rest = string.match(follower[1] or '', '^(%d+) (%d+) (.*)$')
  local _, _, _, expires = read_lease(follower[3])
  if not due or pushed_again(redis.call('PTTL', from), expires) then
    redis.call('DEL', name)
    redis.call('ZREM', pool, id)
    return
  end
  due = tonumber(due)
  length = tonumber(length)
  local topic, options = string.sub(rest, 1, length), string.sub(rest, length + 1)
  local _, _, lifetime = read_options(options)
  redis.call('HSET', name, 'topic', topic, 'body', follower[2] or '', 'options', options)
  redis.call('HDEL', name, 'lease', 'error', 'first', 'next', 'next_body', options == '' and 'options' or 'error')
  if from ~= name then redis.call('HDEL', from, 'next', 'next_body') end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  local waiting = due <= begun and redis.pcall('LPUSH', queues .. topic, id)
  if type(waiting) == 'number' then
    redis.call('ZREM', pool, id)
    wake(topic, waiting)
  else
    redis.call('ZADD', pool, score_of(math.max(due, now)), id)
    announce(score_of(math.max(due, now)), math.max(due - now, 0))
  end
  register_push(topic, now / 1000, due / 1000)
end
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
