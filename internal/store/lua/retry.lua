-- retry: returns reserved jobs, to be delivered again now or later. One whose attempts are used up becomes a dead letter instead, and
-- its follower takes its place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token; after how long it is due (ms; 0: it is ready at once); how many
--   attempts it has if it does not say so (0: any number), or 'refund': this attempt does not count; and the error, or ''
--
-- Returns {place, what, place, what, …} of the jobs that it did not return: LEASE_LOST; EXHAUSTED, it is a dead letter now; or the
-- error, a text. Nothing has changed of those with LEASE_LOST or an error.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
--
-- Atomic because a job must be leased, in the pool, ready or dead, never in two of these or in none.
-- Cost: O(log n) of the pool for each job.
-- include: dead: bury; guard: not_permitted not_writable; lease: count_reserved read_lease lease_text read_options lifetime_left leased_job
-- include: pool: announce; queue: wake; time: now score_of; topics: register_wait; cluster: not_here elsewhere
local FIELDS = 6
local first_bucket = buckets .. ARGV[2]
local err = not_writable() or not_permitted('ZREM', pool, '') or not_permitted('PEXPIRE', first_bucket, '1')
  or not_permitted('HSET', first_bucket, 'error', '')
if err then return err end
-- cluster: for i = 1, #ARGV, FIELDS do
-- cluster:   err = tonumber(ARGV[i + 3]) <= 0 and elsewhere(queues .. ARGV[i])
-- cluster:   if err then return err end
-- cluster: end
local asked = {}
for i = 2, #ARGV, FIELDS do asked[#asked + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(asked)) -- all at once: the pool may end with the first of them

-- Of the job at ARGV[i]: what the bucket says; what the reply says if the lease is not held; and whether the attempts are used up.
-- All are read before the first write, for the call to be refused, and tried again, if a slot is on its way.
local jobs, whys, used_up = {}, {}, {}
for i = 1, #ARGV, FIELDS do
  local most = ARGV[i + 4]
  local job, unread = leased_job(scores[(i - 1) / FIELDS + 1], buckets .. ARGV[i + 1], ARGV[i], ARGV[i + 2], 'options')
  jobs[i], whys[i] = job, unread and unread.err or LEASE_LOST
  if job and most ~= 'refund' then
    local limit = read_options(job[3])
    if limit == 0 then limit = tonumber(most) end
    used_up[i] = limit > 0 and read_lease(job[1]) >= limit
  end
  -- cluster: local missing = not_here(unread) or used_up[i] and elsewhere(dead_letters)
  -- cluster: if missing then return missing end
end
redis.call('ZREM', pool, '') -- takes nothing; behind a write, nothing is refused at maxmemory

local ended, ids, lengths = {}, {}, {} -- leases, by topic, and their jobs; of queues, by topic
local first_due, followers = math.huge, nil

-- Puts a job that is out of the pool into its queue, and a released one in front. If
-- the queue can't take it, the server will name that: it goes back into the pool, due now.
local function make_ready(topic, id, in_front)
  local length = redis.pcall(in_front and 'RPUSH' or 'LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    lengths[topic] = length
  else
    redis.call('ZADD', pool, score_of(now), id)
  end
end

-- Returns what the reply says of the job at ARGV[i], nil if it was given back.
local function give_back(i)
  local topic, id, delay, refund, text = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 3]), ARGV[i + 4] == 'refund', ARGV[i + 5]
  local name, job = buckets .. id, jobs[i]
  if not job then return whys[i] end
  local attempts, token, lent = read_lease(job[1])
  if used_up[i] then
    local failed = bury(id, name, topic, string.format('all %d attempts used up', attempts), text, string.byte(job[1]) == FOLLOWER_BYTE)
    if failed then return failed.err end
    redis.call('ZREM', pool, id)
    if string.byte(job[1]) == FOLLOWER_BYTE then
      followers = followers or {}
      followers[#followers + 1] = id
    end
    ended[topic], ids[#ids + 1] = (ended[topic] or 0) - 1, id
    return EXHAUSTED
  end
  local left = lifetime_left(redis.call('PTTL', name), token, lent)
  local given_back = lease_text(math.max(refund and attempts - 1 or attempts, 0), token, 0, left >= 0 and left + delay or left)
  redis.call('HSET', name, 'lease', string.byte(job[1]) == FOLLOWER_BYTE and FOLLOWER_MARK .. given_back or given_back)
  if text ~= '' then redis.call('HSET', name, 'error', text) end
  if left >= 0 then
    redis.call('PEXPIRE', name, string.format('%d', left + delay))
  end
  ended[topic], ids[#ids + 1] = (ended[topic] or 0) - 1, id
  if delay > 0 then
    redis.call('ZADD', pool, score_of(now + delay), id)
    register_wait(topic, now / 1000, (now + delay) / 1000)
    first_due = math.min(first_due, now + delay)
  else
    redis.call('ZREM', pool, id)
    make_ready(topic, id, refund)
  end
end

local reply = {}
for i = 1, #ARGV, FIELDS do
  local what = give_back(i)
  if what then
    reply[#reply + 1], reply[#reply + 2] = (i - 1) / FIELDS + 1, what
  end
end
count_reserved(ended, ids)
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
for topic, length in pairs(lengths) do wake(topic, length) end
if not followers then return reply end

-- include: follow: follow_up; keys: dead_letters
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
