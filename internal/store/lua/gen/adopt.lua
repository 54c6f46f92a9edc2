-- adopt: stores a batch of jobs that are in transit from another partition. Each batch is stored once, and none before an earlier one.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local migration = prefix .. 'migration'
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local buckets = prefix .. 'job_bucket:'
local dead_letters = prefix .. 'dead_letter:'
local once = prefix .. 'once'
local dead_lists = prefix .. 'dead_letters:'
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
local SCHEDULE_TOPIC = 'delayer:schedules'
local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end
local schedules = prefix .. 'schedules'
local queues = prefix .. 'ready_queue:'
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
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
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
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
      local throttled = prefix .. 'held_back:'
      local waiters = prefix .. 'waiting:'
      local wake_channels = prefix .. 'wake:'
      local function wake_throttled(topic)
        if redis.pcall('EXISTS', throttled .. topic, waiters .. topic) == 0 then return nil end
        local jobs = redis.pcall('LLEN', queues .. topic)
        if jobs == 0 then
          local paused_waiters = prefix .. 'paused_waiting:'
          local WAITING_FOR = 3600000
          local function end_throttling(topic)
            local all, waiting = redis.pcall('ZPOPMIN', throttled .. topic, 1000), waiters .. topic
            if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
            for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
            if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
          end
          end_throttling(topic)
        end
        while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
          local first = redis.pcall('ZPOPMIN', throttled .. topic)
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
local limits = prefix .. 'limits'
local function parse_limit(topic, text)
  if not text then return nil end
  if type(text) == 'table' then return nil, text end
  local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  interval = tonumber(interval)
  if not interval then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
  return tonumber(concurrency), interval, tonumber(burst), tonumber(next), tonumber(appointed), whole
end
local function read_limit(topic) return parse_limit(topic, redis.pcall('HGET', limits, topic)) end
local slots = prefix .. 'slots:'
local function slot_score(at) return string.format('%.0f', at) end
local now_s = now_us / 1000000
local dead_topics = prefix .. 'dead_topics'
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end
local groups = prefix .. 'group:'
local waiters = prefix .. 'waiting:'
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
local from, serial = 'from ' .. ARGV[1], tonumber(ARGV[2])
local last = redis.call('HGET', migration, from) or '0'
if serial > 0 and last - serial >= 0 then return {0, 0, last} end
local err = not_writable() or not_permitted('HSET', buckets, 'topic', '') or not_permitted('PEXPIRE', buckets, '1')
  or not_permitted('HSET', migration, 'a', '') or not_permitted('ZREM', pool, '') or not_permitted('HSET', dead_letters, 'topic', '')
  or not_permitted('PTTL', once) or not_permitted('ZADD', dead_lists, '0', '') or not_permitted('EXISTS', buckets) or not_permitted('DEL', dead_letters)
  or elsewhere(buckets)
if err then return err end
if serial == 0 then
  redis.call('HSET', migration, 'room', 1)
  return {redis.call('HDEL', migration, 'room') - 1, 0, last}
end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local CHUNK = 1000 -- unpack fails near 8,000
local adopted, superseded = 0, 0
local first_due = math.huge

local function store(name, ttl, first, last)
  for some = first, last, CHUNK do redis.call('HSET', name, unpack(ARGV, some, math.min(some + CHUNK - 1, last))) end
  if ttl >= 0 then redis.call('PEXPIRE', name, string.format('%d', math.max(ttl, 1))) end
end

-- Converts the last lease in the bucket to this partition's clock.
local function adjust_lease(name, ttl)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local attempts, token, lent = read_lease(text)
  redis.call('HSET', name, 'lease', keep_follower(text, lease_text(attempts, token, lent, ttl)))
end

local function place(kind, id, topic, at)
  local name = topic == SCHEDULE_TOPIC and schedule_name(id)
  if name then redis.call('ZADD', schedules, 0, name) end
  if kind == 'r' and not make_ready(topic, id) then
    redis.call('ZREM', pool, id) -- an entry without a job
    register_use(topic, now / 1000, now / 1000)
    return
  end
  if kind == 'r' then at = score_of(now) end -- the server reports why it can't be ready
  redis.call('ZADD', pool, at, id)
  if is_lease(at) then
    count_reserved({[topic] = 1})
    if (read_limit(topic) or -1) >= 0 then redis.pcall('ZADD', slots .. topic, slot_score(at * 1000000), id) end
  end
  if not name then register_use(topic, now / 1000, tonumber(at)) end
  if tonumber(at) > now_s then first_due = math.min(first_due, tonumber(at)) end
end

-- Whether the ID has no job, or no letter. An older letter is deleted.
local function makes_room(kind, name, id, at)
  if redis.call('EXISTS', name) == 0 then return true end
  local died = kind == 'd' and redis.pcall('HMGET', name, 'died', 'topic')
  if not died or not died[2] or tonumber(died[1] or 0) - at >= 0 then return false end
  redis.call('DEL', name)
  unlist(died[2], id)
  return true
end

local i = 3
while i <= #ARGV do
  local kind, id, at, ttl, first, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), i + 5, tonumber(ARGV[i + 4])
  local name = (kind == 'd' and dead_letters or buckets) .. id
  i = first + n
  if kind == 'o' then
    redis.call('ZADD', once, 'GT', at, id)
    keep_once(math.max(tonumber(at) - now, 1))
  elseif kind == 'g' then -- unless there is another one
    if redis.call('EXISTS', groups .. id) == 0 then store(groups .. id, ttl, first, i - 1) end
  elseif not makes_room(kind, name, id, at) then
    superseded = superseded + 1
  else
    adopted = adopted + 1
    store(name, ttl, first, i - 1)
    local topic = redis.call('HGET', name, 'topic')
    if kind == 'd' then
      redis.pcall('ZADD', dead_lists .. topic, at, id)
      redis.pcall('ZADD', dead_topics, 'LT', at, topic)
      register_use(topic, now / 1000, now / 1000)
    else
      adjust_lease(name, ttl)
      place(kind, id, topic, at)
    end
  end
end
-- Last, so that a retry stores the entries that Redis before 7.0 may have refused half-way.
redis.call('HSET', migration, from, ARGV[2])
wake_all()
if first_due < math.huge then
  local ms = math.ceil(first_due * 1000)
  announce(score_of(ms), ms - now)
end
return {adopted, superseded, ARGV[2]}
