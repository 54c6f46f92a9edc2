-- stats: counts some topics' jobs, and measures how late they are.
--
-- KEYS[1] job pool   KEYS[2] the numbers of reserved jobs
-- ARGV[1] 'late' to return how late they are   ARGV[2] 'reserved' to count the reserved jobs of all topics   ARGV[3…] topics
-- Returns {time (Unix µs), pool, overdue, reserved, counted; of each topic: position, ready, reserved, dead, overdue, sure, limit}: the number
-- of jobs in the pool, waiting and reserved; how long its first entry has been due, or the topic's next job ready (ms; 0 without one); how
-- many jobs of all topics are reserved; how many of the topics were counted, the first ones: the others are for another call. position is
-- the topic's, from 1 on; an empty topic is left out. If sure is 0, overdue is a lower bound. limit is '' or {the limit as it was set, how
-- many ready jobs it throttles, how many slots are taken, when its rate lets the next job start (Unix ms), 0 if now or if a slot is missing}.
-- -1 stands for what can't be read, takes too long, or was not requested.
-- Errors: WRONGTYPE of the pool, NOPERM.
-- One script saves round trips.
-- Cost: an EXISTS for BLOCK empty topics; some commands for each of the others, MOST at most, and its first entry; with stale entries,
-- MAX_STALE more in all at most.
-- include: guard lease limit slots
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
