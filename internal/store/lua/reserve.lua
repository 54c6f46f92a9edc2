-- reserve: takes the next ready jobs of some topics and leases them: each returns to the pool, due when its lease ends. A job whose last lease
-- has ended and whose attempts are used up becomes a dead letter here; if that fails it is deferred, and does not delay the others.
--
-- KEYS, ARGV[1…4] and the topics at the end: see parts/take.lua
-- ARGV[5] the length of the lease (ms); 0: as the job says, SHORTEST_LEASE at least, or else DEFAULT_LEASE
-- ARGV[6] how many attempts a job has that does not say so; 0: any number
-- ARGV[7…] how many jobs of each of KEYS[2…] at most; then the topics
-- Returns {more, stale, registered, deferred, queue, jobs, left, leases, …}: as pop, with {topic, ID, why, …} of the jobs that can't become
-- dead letters, and of each topic {length (ms), end (Unix µs), token, attempt, late, attempt, late, …}: the usual lease, and of each job
-- its attempt, from 1 on, and how long it was ready (ms; -1 if unknown). A token is greater than the previous one. If a job has another
-- lease, or says how many attempts it has, its attempt is negated, and late is followed by maximum attempts (0: it does not say), length,
-- end and token. A topic that has reached its limit returns {-queue, in how long to poll again (ms)}; -1: the waiter is registered as
-- throttled, and is woken when a slot is free.
-- Errors: as pop; a limit that can't be read.
-- Atomic because a job must be in the queue or leased, never in both or neither.
-- Cost: as pop, and O(log n) of the pool for each job.
-- include: guard lease take time
local usual_length, default_most = tonumber(ARGV[5]), tonumber(ARGV[6])
local as_the_job_says = usual_length == 0
if as_the_job_says then usual_length = DEFAULT_LEASE end

-- The usual lease.
local usual_end, usual_score = lease_end(usual_length)
local first_attempt = lease_text(1, now_us, 0, DEFAULT_LIFETIME)
local first_end = math.huge -- µs

-- The data of the jobs taken next, nil for new jobs without options; and the jobs whose attempts are used up.
local known, seen, exhausted, taken = {}, {}, {}, 0
local followers -- IDs of buried jobs whose followers take their places
local deferred = {} -- topic, ID, why, …

-- Reads the fields of a job that was reserved before, or has options; defined when it is first needed.
local known_of

local function read(name) return pcall('HMGET', name, 'topic', 'body', 'options', 'lease') end

local function wants(id, name, job)
  if seen[id] then return false end -- the ID was there twice
  seen[id] = true
  local job_knows
  if job[3] or job[4] then
    if not known_of then
      -- include: lease: has_follower read_lease pushed_again read_options
      known_of = function(name, job)
        local k = {}
        local lent
        k.attempts, k.token, lent, k.expires = read_lease(job[4])
        k.most, k.ttr, k.lifetime = read_options(job[3])
        k.followed = has_follower(job[4])
        if k.expires > 0 then
          k.ttl = pcall('PTTL', name)
          if type(k.ttl) == 'table' then -- write_lease returns it
            k.attempts = 0
          elseif pushed_again(k.ttl, k.expires) then
            k.anew, k.attempts, k.most, k.ttr, k.lifetime, k.followed = true, 0, 0, 0, DEFAULT_LIFETIME, false
            job[3] = false
          end
        end
        return k
      end
    end
    job_knows = known_of(name, job)
    local limit = job_knows.most > 0 and job_knows.most or default_most
    if limit > 0 and job_knows.attempts >= limit then
      exhausted[#exhausted + 1] = {id, name, job_knows.attempts, job_knows.followed}
      entries_left = entries_left - 10 -- a burial costs as much
      return false
    end
  end
  taken = taken + 1
  known[taken] = job_knows
  return true
end

-- Buries the jobs whose attempts are used up, or defers them.
local function bury_exhausted(topic)
  -- include: time: now; dead: bury; pool: retry_score; take: claim_tells; go: RETRY_AFTER
  for _, job in ipairs(exhausted) do
    local err = bury(job[1], job[2], topic, string.format(job[3] == 1 and 'the only attempt used up' or 'all %d attempts used up', job[3]), '', job[4])
    if not err and job[4] then
      followers = followers or {}
      followers[#followers + 1] = job[1]
    elseif err then
      local n = #deferred
      redis.call('ZADD', pool, retry_score(now + RETRY_AFTER, n / 3), job[1])
      claim_tells = true
      deferred[n + 1], deferred[n + 2], deferred[n + 3] = topic, job[1], err.err
    end
  end
end

-- Writes a lease into the job's bucket. Returns how long the job has been ready, or an error reply.
local function write_lease(name, length, text, attempt, token, k)
  local ttl = k and k.ttl or pcall('PTTL', name)
  if type(ttl) == 'table' then return ttl end
  local changed
  local lent = loan(ttl, length)
  if lent then
    changed = pcall('PEXPIRE', name, string.format('%d', ttl + lent))
    if type(changed) == 'table' then return changed end
    text = lease_text(attempt, token, lent, ttl + lent)
  elseif not text or ttl > DEFAULT_LIFETIME then
    text = lease_text(attempt, token, 0, ttl)
  end
  if k and k.followed then
    -- include: go: FOLLOWER_MARK
    text = FOLLOWER_MARK .. text
  end
  changed = pcall('HSET', name, 'lease', text)
  if type(changed) == 'table' then return changed end
  -- The job was ready for the part of its lifetime that has passed. Later attempts add to that.
  local late = (k and k.lifetime or DEFAULT_LIFETIME) - ttl
  return attempt == 1 and ttl >= 0 and late >= 0 and late or -1
end

-- Leases the job, and adds its part of the reply to leases. Returns its score, what write_lease returns, and when the lease ends (Unix µs).
local function reserve(name, k, leases)
  local n = #leases
  if not k then
    local late = write_lease(name, usual_length, first_attempt, 1, now_us)
    leases[n + 1] = 1
    leases[n + 2] = late
    first_end = math.min(first_end, usual_end)
    return usual_score, late, usual_end
  end
  if k.anew then pcall('HDEL', name, 'options', 'error', 'next', 'next_body') end
  local length, at, score = usual_length, usual_end, usual_score
  if as_the_job_says and k.ttr > 0 then
    -- include: go: MAX_LEASE SHORTEST_LEASE
    length = math.max(math.min(k.ttr, MAX_LEASE), SHORTEST_LEASE)
    at, score = lease_end(length)
  end
  local token = math.max(now_us, k.token + 1)
  local late = write_lease(name, length, nil, k.attempts + 1, token, k)
  leases[n + 1] = -(k.attempts + 1)
  leases[n + 2] = late
  leases[n + 3] = k.most
  leases[n + 4] = length
  leases[n + 5] = at
  leases[n + 6] = token
  first_end = math.min(first_end, at)
  return score, late, at
end

-- The jobs are counted as reserved before they are read, so that no further command is needed to know whether the topic has a limit. (A
-- reserve that leaves topics with a limit to another script takes 1 % less time, and needs a second call when it meets one.)
local counted = 0
local close, slots_of_topic -- of a topic with a limit, see open_limit

local function gate(topic, n, taken)
  if taken then
    if taken ~= counted and pcall('HINCRBY', reserved_counts, topic, taken - counted) == 0 then pcall('HDEL', reserved_counts, topic) end
    counted = 0
    if not close then return nil end
    local limit_closes = close
    close, slots_of_topic = nil, nil
    return limit_closes(taken)
  end
  local count = pcall('HINCRBY', reserved_counts, topic, n)
  counted = n
  if type(count) ~= 'number' then
    -- include: cluster: elsewhere; keys: limits
    local missing = elsewhere(reserved_counts)
    if missing and pcall('HEXISTS', limits, topic) ~= 0 then return 0, missing end
    return n
  end
  if count < HAS_LIMIT then return n end
  -- include: limit: open_limit
  local most, err
  most, close, slots_of_topic, err = open_limit(topic, n, ARGV[2] ~= '')
  return most, err
end

local writable -- checked for the first queue; it holds for all

local function claim(jobs, names, n, topic)
  local err = not writable and not_writable()
  if not err and n > 0 then
    err = not_permitted('HSET', names[1], 'lease', '') or not_permitted('PEXPIRE', names[1], '1')
  end
  if err then return err end
  writable = true
  if exhausted[1] then bury_exhausted(topic) end
  local leases = {usual_length, usual_end, now_us}
  local scores, ends = {}, {} -- of leases that are not the usual one
  for k = 1, n do
    local score, refused, at = reserve(names[k], known[k], leases)
    if type(refused) == 'table' then
      if k == 1 then return refused end
      leases[#leases] = -1 -- it is leased all the same, but this attempt is not counted
    end
    if score ~= usual_score then scores[k], ends[k] = score, at end
  end
  if n > 0 then
    -- The last one first: Redis searches a short sorted set from its beginning, where entries of one score are sorted by ID, and IDs often
    -- grow.
    local entries, e = {}, 0 -- score, ID, score, ID, …
    for k = n, 1, -1 do
      entries[e + 1] = scores[k] or usual_score
      entries[e + 2] = jobs[2 * k - 1]
      e = e + 2
    end
    redis.call('ZADD', pool, unpack(entries))
    if slots_of_topic then
      local usual = string.format('%.0f', usual_end) -- as slot_score does
      for k = 1, n do
        entries[2 * (n - k) + 1] = ends[k] and string.format('%.0f', ends[k]) or usual
      end
      redis.pcall('ZADD', slots_of_topic, unpack(entries))
    end
  end
  known, exhausted, taken = {}, {}, 0
  return nil, jobs, leases
end

local reply = take_all(read, wants, claim, 7, gate)
announce_end(first_end)
if not reply.err then table.insert(reply, 4, deferred) end
if not followers then return reply end

-- include: follow: follow_up; keys: dead_letters
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
