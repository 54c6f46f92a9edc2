-- push: stores jobs and schedules them; an ID that exists is replaced, or as the policy says.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with   ARGV[2] what those of ready queues begin with
-- ARGV[3] the channel on which servers are told of a job that is now the next to fall due
-- ARGV[4] how long a job is kept once it is ready, ms
-- ARGV[5] 'replace', 'refuse', 'earlier' or 'later': what becomes of an ID that exists
-- ARGV[6] 'each': every job for itself; 'all': all of them or none
-- ARGV[7…] of each job: ID, topic, body, and when it is due: '+' and a delay in ms, or a Unix
-- time in ms; no ID twice, and at most 1,000 jobs
--
-- Returns {place, why, place, why, …}: the 1-based places of the jobs that are not stored, and
-- for each 0, it exists and the policy is 'refuse', or a text, the error. With 'all', if there is
-- one of them, no job is stored.
-- Errors: WRONGTYPE of the pool, OOM, a permission that is missing, before anything is written.
--
-- Atomic because a bucket without its pool entry would never fall due, and a
-- pool entry without its bucket could not be delivered.
-- Cost: O(log n) of the pool for each job; of an ID that is ready, also its queue's
-- length (at most 10,000).
local pool, buckets, queues, lifetime, policy = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local FIRST, FIELDS = 7, 4

local now = now_ms()
local names = {} -- of the buckets
for i = FIRST, #ARGV, FIELDS do names[#names + 1] = buckets .. ARGV[i] end
-- One question for all, as most IDs are new.
local some_exist = redis.call('EXISTS', unpack(names)) > 0

-- What keeps job k, whose arguments begin at i, from being stored (0 or an
-- error's text), or nil; then when it is due, and, if it replaces a job that is ready, that one's topic.
local function look(k, i)
  local due, was_ready = ARGV[i + 3], nil
  if string.sub(due, 1, 1) == '+' then due = now + string.sub(due, 2) else due = tonumber(due) end
  if some_exist then
    local was = redis.pcall('HGET', names[k], 'topic')
    if type(was) == 'table' then return was.err .. ' (job bucket ' .. names[k] .. ')' end
    if was then
      if policy == 'refuse' then return 0 end
      local waits = redis.call('ZSCORE', pool, ARGV[i])
      local old = waits and math.min(math.floor(tonumber(waits) * 1000 + 0.5), LAST_MS) or now
      if policy == 'earlier' then due = math.min(due, old) end
      if policy == 'later' then due = math.max(due, old) end
      if not waits then was_ready = was end
    end
  end
  if due <= now then
    local queue = queues .. ARGV[i + 1]
    local err = not_permitted('LPUSH', queue, '') or not_permitted('ZREM', pool, '') or not_a_list(queue)
    if err then return err.err end
  end
  return nil, due, was_ready
end

local refused_jobs, dues, ready_before = {}, {}, {}
local first_due = math.huge -- of the jobs that are to wait
for k = 1, #names do
  local why_not, due, was_ready = look(k, FIRST + (k - 1) * FIELDS)
  dues[k], ready_before[k] = due or false, was_ready
  if why_not then
    refused_jobs[#refused_jobs + 1] = k
    refused_jobs[#refused_jobs + 1] = why_not
  elseif due > now and due < first_due then
    first_due = due
  end
end
if ARGV[6] == 'all' and #refused_jobs > 0 then return refused_jobs end
local is_next = is_next_due(pool, math.min(first_due, LAST_MS), now)
if type(is_next) == 'table' then return is_next end
local err = not_permitted('PEXPIRE', names[1], '1') or not_permitted('ZADD', pool, '1', '')
if err then return err end

local entries = {} -- of the pool: score, ID, score, ID, …
local last_due, last_score, last_expiry -- jobs of one call often fall due together
for k = 1, #names do
  local due, i = dues[k], FIRST + (k - 1) * FIELDS
  if due then
    local id, topic = ARGV[i], ARGV[i + 1]
    if due ~= last_due then
      last_due, last_score = due, score(due)
      last_expiry = string.format('%d', math.max(due - now, 0) + lifetime)
    end
    -- The first write is one that Redis refuses at maxmemory, so that a push is
    -- refused whole.
    redis.call('HSET', names[k], 'topic', topic, 'body', ARGV[i + 2])
    redis.call('PEXPIRE', names[k], last_expiry)
    if ready_before[k] then withdraw(queues .. ready_before[k], id) end
    if due > now then
      local n = #entries
      entries[n + 1], entries[n + 2] = last_score, id
    else
      redis.call('ZREM', pool, id)
      redis.call('LPUSH', queues .. topic, id)
    end
  end
end
if #entries > 0 then redis.call('ZADD', pool, unpack(entries)) end
if is_next and first_due < math.huge then tell(ARGV[3], first_due - now) end
return refused_jobs
