-- bury: makes dead letters of reserved jobs. A job's follower takes its place.
local pool = KEYS[1]
local IN_CLUSTER = false
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
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local dead_letters = prefix .. 'dead_letter:'
local FOLLOWER_BYTE = 43
local dead_lists = prefix .. 'dead_letters:'
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function bury(id, bucket, topic, reason, text, has_follower)
  local letter, list = dead_letters .. id, dead_lists .. topic
  if has_follower then
    local protected = rawget(_G, 'pcall')
    local function not_permitted(command, ...)
      if not redis.acl_check_cmd then return nil end
      local is_known, may = protected(redis.acl_check_cmd, command, ...)
      if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
      if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
    end
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
local LEASE_LOST = 9
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
      local queues = prefix .. 'ready_queue:'
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
local FIELDS = 5
local ids = {}
for i = 2, #ARGV, FIELDS do ids[#ids + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(ids)) -- all at once: the pool may end with the first of them
if IN_CLUSTER then -- before the first write, so that the whole call is refused, and tried again, while the slot moves
  local function elsewhere(key)
    local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
    return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
  end
  for k, id in ipairs(ids) do
    local job, unread = leased_job(scores[k], buckets .. id, ARGV[FIELDS * k - 4], ARGV[FIELDS * k - 2])
    local missing = unread and elsewhere(buckets .. id) or job and elsewhere(dead_letters)
    if missing then return missing end
  end
end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local reply, ended, buried, followers = {}, {}, {}, {}
for k, id in ipairs(ids) do
  local i, name = FIELDS * k - 4, buckets .. id
  local topic = ARGV[i]
  local job, err = leased_job(scores[k], name, topic, ARGV[i + 2])
  local has_follower = job and string.byte(job[1]) == FOLLOWER_BYTE
  if job then err = bury(id, name, topic, ARGV[i + 3], ARGV[i + 4], has_follower) end
  if err or not job then
    reply[#reply + 1], reply[#reply + 2] = k, err and err.err or LEASE_LOST
  else
    redis.call('ZREM', pool, id)
    ended[topic], buried[#buried + 1] = (ended[topic] or 0) - 1, id
    if has_follower then followers[#followers + 1] = id end
  end
end
count_reserved(ended, buried)
if #followers == 0 then return reply end

local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local queues = prefix .. 'ready_queue:'
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
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
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
