-- stats: counts some topics' jobs, and measures how late they are.
local LIMIT_MARK = 1099511627776
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK
  return kept - raised, raised
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
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
local PLACES = 1000
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local function free_among(set, ids, at, changes)
  local free = {}
  if #ids == 0 then return free end
  local scores = redis.pcall('ZMSCORE', pool, unpack(ids))
  if scores.err then return scores end
  for i, id in ipairs(ids) do
    local score = scores[i] and tonumber(scores[i])
    if not score or score * 1000000 <= at or not is_lease(score) then
      free[#free + 1] = id
    elseif changes then
      redis.pcall('ZADD', set, slot_score(score * 1000000), id)
    end
  end
  return free
end
local OTHERS = 200
local function count_slots(topic, at, most)
  local set = slots .. topic
  local all = redis.pcall('ZCOUNT', set, '-inf', '+inf')
  if type(all) == 'table' or most and all <= most then return all end
  local past = redis.pcall('ZRANGE', set, '-inf', slot_score(at), 'BYSCORE', 'LIMIT', 0, PLACES)
  if past.err then return past end
  local free = free_among(set, past, at, most)
  if free.err then return free end
  if not most then return all - #free end
  if all - #free > most then
    local first = redis.pcall('ZRANGE', set, 0, OTHERS - 1)
    free = first.err and first or free_among(set, first, at)
    if free.err then return free end
  end
  local left = all - #free
  if left == 0 then free[#free] = nil end
  if #free > 0 then redis.pcall('ZREM', set, unpack(free)) end
  return left
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local UNTIL_SEEN = 120000
local buckets = prefix .. 'job_bucket:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local pauses = prefix .. 'paused'
local queues = prefix .. 'ready_queue:'
local dead_lists = prefix .. 'dead_letters:'
local parked_queues = prefix .. 'paused_queue:'
local BLOCK, MOST = 32, 100
local MAX_STALE, OF_ONE_QUEUE = 200, 50
local MAX_TOPICS = 10000 -- those with reserved jobs that are added up
local LONGEST = 100 * 365 * 86400000
local FIRST = 3
local reserved = #ARGV >= FIRST and redis.pcall('HMGET', KEYS[2], unpack(ARGV, FIRST)) or {}
local clock = ARGV[1] == 'late' and redis.pcall('TIME')
local now_ms = clock and not clock.err and clock[1] * 1000 + clock[2] / 1000
local stale_left = MAX_STALE

-- The number of reserved jobs, and whether the topic has a limit.
local function reserved_number(kept)
  local count, raised = lowered(tonumber(kept) or 0)
  return math.max(count, 0), raised > 0
end

-- The reply's part about the topic's limit, '' without one.
local LATELY = 1000000 -- µs
local function limit_of(topic, kept, ready)
  local _, has_limit = reserved_number(kept)
  if not has_limit then return '' end
  local concurrency, interval, _, next, appointed, whole = read_limit(topic)
  local clock = redis.pcall('TIME')
  if not concurrency or clock.err then return '' end
  local at = clock[1] * 1000000 + clock[2]
  local taken = concurrency >= 0 and count_slots(topic, at) or 0
  if type(taken) == 'table' then return '' end
  local full = concurrency >= 0 and taken >= concurrency
  local too_early = interval > 0 and next > at
  local throttles = full or too_early or appointed > at - LATELY
  local opens = too_early and not full and ready > 0 and math.ceil(next / 1000) or 0
  return {whole, throttles and math.max(ready, 0) or 0, taken, string.format('%.0f', opens)}
end

local function number(reply) return type(reply) == 'number' and reply or -1 end

-- How long something has been due since then (ms).
local function since(due) return math.floor(math.min(math.max(now_ms - due, 0), LONGEST)) end

local function pool_overdue()
  local entry = now_ms and redis.pcall('ZRANGE', pool, 0, 0, 'WITHSCORES')
  if not entry or entry.err then return -1 end
  local score = tonumber(entry[2])
  return score and since(score * 1000) or 0
end

local function all_reserved()
  if ARGV[2] == '' then return -1 end
  local topics = redis.pcall('HLEN', KEYS[2])
  if type(topics) == 'table' or topics > MAX_TOPICS then return -1 end
  local counts, sum = redis.pcall('HVALS', KEYS[2]), 0
  if counts.err then return -1 end
  for _, count in ipairs(counts) do sum = sum + reserved_number(count) end
  return sum
end

-- How long the job has been ready: the part of its lifetime that has passed, as it passes only then. For a job that was delivered before it is
-- the sum, but at most the time since its last lease began.
local function ready_for(name, job)
  local ttl = redis.pcall('PTTL', name)
  local attempts, token, lent = read_lease(job[2])
  local _, _, lifetime = read_options(job[3])
  if lent > 0 then lifetime = math.max(lifetime, UNTIL_SEEN) end -- its lease has expired
  local late = type(ttl) == 'number' and ttl >= 0 and lifetime - ttl or -1
  if attempts == 0 then return math.max(late, -1) end
  local leased = since(token / 1000)
  return late >= 0 and math.min(late, leased) or leased
end

-- Reads an entry of the topic's queue. Returns how long its job has been ready, nil if the entry is stale; and whether it can be read.
local function read_entry(topic, queue, place)
  local id = redis.pcall('LINDEX', queue, -place)
  if type(id) ~= 'string' then return nil, false end
  local name = buckets .. id
  local job = redis.pcall('HMGET', name, 'topic', 'lease', 'options')
  if unreadable(job) then return nil, false end
  if job[1] ~= topic then return nil, true end
  local waits = redis.pcall('ZSCORE', pool, id)
  if type(waits) == 'table' then return nil, false end
  if waits then return nil, true end
  return ready_for(name, job), true
end

-- How long the topic's next job has been ready, and whether that is sure. Behind many stale entries it reads further and further away: a job
-- found there came later, so the next job has been ready at least as long.
local function queue_overdue(topic, queue, length)
  if not now_ms then return -1, 0 end
  if length <= 0 then return length, 1 end
  local place, step = 1, 1
  while true do
    local late, readable = read_entry(topic, queue, place)
    if not readable then return -1, 0 end
    if late then return math.max(late, 0), late >= 0 and step == 1 and 1 or 0 end
    if place == length then return 0, step == 1 and 1 or 0 end
    if place >= OF_ONE_QUEUE or stale_left <= 0 then step = 4 * step end
    stale_left = stale_left - 1
    place = math.min(place + step, length)
  end
end

local some_paused = #ARGV >= FIRST and redis.pcall('EXISTS', pauses) == 1
local reply = {now_ms and clock[1] .. string.format('%06d', clock[2]) or -1, redis.call('ZCARD', pool), pool_overdue(),
  all_reserved(), #ARGV - FIRST + 1}

-- Whether any of the topics from first to last may have jobs in a queue, or dead letters.
local function some_exist(first, last)
  local keys = {}
  for k = first, last do
    keys[#keys + 1], keys[#keys + 2] = queues .. ARGV[k], dead_lists .. ARGV[k]
    if some_paused then keys[#keys + 1] = parked_queues .. ARGV[k] end
  end
  return redis.pcall('EXISTS', unpack(keys)) ~= 0
end

-- Adds a topic to the reply.
local function tell(k, ready, parked, dead)
  local topic, n, kept = ARGV[k], #reply, reserved[k - FIRST + 1]
  reply[n + 1] = k - FIRST + 1
  reply[n + 2] = ready < 0 and ready or ready + parked
  reply[n + 3] = reserved.err and -1 or (reserved_number(kept))
  reply[n + 4] = dead
  if ready == 0 then
    reply[n + 5], reply[n + 6] = queue_overdue(topic, parked_queues .. topic, parked)
  else
    reply[n + 5], reply[n + 6] = queue_overdue(topic, queues .. topic, ready)
  end
  reply[n + 7] = reserved.err and '' or limit_of(topic, kept, ready)
end

local told = 0
for first = FIRST, #ARGV, BLOCK do
  local last = math.min(first + BLOCK - 1, #ARGV)
  local some = some_exist(first, last)
  for k = first, last do
    local topic, ready, parked, dead = ARGV[k], 0, 0, 0
    if some then
      ready, dead = number(redis.pcall('LLEN', queues .. topic)), number(redis.pcall('ZCARD', dead_lists .. topic))
      if some_paused then parked = math.max(number(redis.pcall('LLEN', parked_queues .. topic)), 0) end
    end
    if ready ~= 0 or parked > 0 or dead ~= 0 or reserved.err or reserved[k - FIRST + 1] then
      if told == MOST then
        reply[5] = k - FIRST
        return reply
      end
      told = told + 1
      tell(k, ready, parked, dead)
    end
  end
end
return reply
