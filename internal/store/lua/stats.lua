-- stats: how many jobs some of the known topics have, and how late they are; it changes nothing.
--
-- KEYS[1] job pool   KEYS[2] the known topics   KEYS[3] the hash of the numbers of reserved jobs
-- ARGV[1] what the names of ready queues begin with   ARGV[2] what those of lists of dead letters
-- ARGV[3] what those of buckets   ARGV[4] how many topics to leave out   ARGV[5] how many to tell
-- of, at most   ARGV[6] 'late' if it is to be told how late they are
--
-- Returns {time, pool, overdue, topic, ready, reserved, dead, overdue, topic, …}: time is Redis's
-- (Unix µs); pool is how many jobs are in the pool, waiting and reserved; overdue is, in ms, for
-- how long the pool's first entry has been due, or the topic's next job has been ready. It is 0 if
-- there is none. A number that can't be read, or is not asked for, is -1.
-- Errors: WRONGTYPE of the pool or the topics, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(topics), and a look at the first entry of each queue; where these are ghosts, at up
-- to MAX_GHOSTS more in all.
local pool, queues, lists, buckets = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local MAX_GHOSTS, OF_ONE_QUEUE = 200, 50
local LONGEST = 100 * 365 * 86400000
local first = tonumber(ARGV[4])
local topics = redis.call('ZRANGE', KEYS[2], first, first + ARGV[5] - 1)
local reserved = #topics > 0 and redis.pcall('HMGET', KEYS[3], unpack(topics)) or {}
local time = ARGV[6] == 'late' and redis.pcall('TIME')
local now = time and not time.err and time[1] * 1000 + time[2] / 1000
local ghosts_left = MAX_GHOSTS

local function number(reply) return type(reply) == 'number' and reply or -1 end

-- For how long something has been due that was due at a time (ms).
local function since(due) return math.floor(math.min(math.max(now - due, 0), LONGEST)) end

local function pool_overdue()
  local entry = now and redis.pcall('ZRANGE', pool, 0, 0, 'WITHSCORES')
  if not entry or entry.err then return -1 end
  local score = tonumber(entry[2])
  return score and since(score * 1000) or 0
end

-- For how long the job has been ready. Its lifetime runs only then, so what is over of that says
-- it. Of one that was delivered before it is the sum; but that was not before its last lease began.
local function ready_for(name, job)
  local ttl = redis.pcall('PTTL', name)
  local attempts, token = read_lease(job[2])
  local _, _, lifetime = read_options(job[3])
  local late = type(ttl) == 'number' and ttl >= 0 and lifetime - ttl or -1
  if attempts == 0 then return math.max(late, -1) end
  local leased = since(token / 1000)
  return late >= 0 and math.min(late, leased) or leased
end

local function queue_overdue(topic, length)
  if not now then return -1 end
  if length <= 0 then return length end
  for i = 1, math.min(length, OF_ONE_QUEUE) do
    local id = redis.pcall('LINDEX', queues .. topic, -i)
    if type(id) ~= 'string' then return -1 end
    local name = buckets .. id
    local job = redis.pcall('HMGET', name, 'topic', 'lease', 'options')
    if unreadable(job) then return -1 end
    if job[1] == topic then
      local waits = redis.pcall('ZSCORE', pool, id)
      if type(waits) == 'table' then return -1 end
      if not waits then return ready_for(name, job) end
    end
    if ghosts_left == 0 then return -1 end
    ghosts_left = ghosts_left - 1
  end
  return length <= OF_ONE_QUEUE and 0 or -1
end

local reply = {now and string.format('%s%06d', time[1], time[2]) or -1, redis.call('ZCARD', pool), pool_overdue()}
for k, topic in ipairs(topics) do
  local length = number(redis.pcall('LLEN', queues .. topic))
  reply[#reply + 1], reply[#reply + 2] = topic, length
  reply[#reply + 1] = reserved.err and -1 or math.max(tonumber(reserved[k] or 0), 0)
  reply[#reply + 1] = number(redis.pcall('ZCARD', lists .. topic))
  reply[#reply + 1] = queue_overdue(topic, length)
end
return reply
