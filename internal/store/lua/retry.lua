-- retry: returns reserved jobs, to be delivered again now or later, or makes dead letters of them. One whose attempts are used up becomes
-- a dead letter in any case. A dead letter's follower takes its place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token; after how long it is due (ms; 0: it is ready at once); how many
--   attempts it has if it does not say so (0: any number), or 'refund': this attempt does not count; and the error, or ''. Or 'bury' in
--   the place of the attempts, to make a dead letter of it, and the reason in the place of the time
-- Returns {place, what, place, what, …} of the jobs with which it did not what was meant: LEASE_LOST; EXHAUSTED, it is a dead letter now;
-- or the error, a text. Nothing has changed of those with LEASE_LOST or an error.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because a job must be leased, in the pool, ready or dead, never in two of these or in none.
-- Cost: O(log n) of the pool, and of the topic's dead letters, for each job.
-- include: dead guard lease time cluster
local FIELDS = 6
local first_bucket = buckets .. ARGV[2]
local err = not_writable() or not_permitted('ZREM', pool, '') or not_permitted('PEXPIRE', first_bucket, '1')
  or not_permitted('HSET', first_bucket, 'error', '')
if err then return err end
-- cluster: for i = 1, #ARGV, FIELDS do
-- cluster:   err = ARGV[i + 3] == '0' and elsewhere(queues .. ARGV[i])
-- cluster:   if err then return err end
-- cluster: end
local asked = {}
for i = 2, #ARGV, FIELDS do asked[#asked + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(asked)) -- all at once: the pool may end with the first of them

-- Of the job at ARGV[i]: what the bucket says; what the reply says if the lease is not held; and why it is to be a dead letter.
-- All are read before the first write, for the call to be refused, and tried again, if a slot is on its way.
local jobs, whys, reasons = {}, {}, {}
for i = 1, #ARGV, FIELDS do
  local most = ARGV[i + 4]
  local job, unread = leased_job(scores[(i - 1) / FIELDS + 1], buckets .. ARGV[i + 1], ARGV[i], ARGV[i + 2], 'options')
  jobs[i], whys[i] = job, unread and unread.err or LEASE_LOST
  if job and most == BURY then
    reasons[i] = ARGV[i + 3]
  elseif job and most ~= REFUND then
    local limit = read_options(job[3])
    if limit == 0 then limit = tonumber(most) end
    local attempts = limit > 0 and read_lease(job[1])
    if attempts and attempts >= limit then reasons[i] = string.format('all %d attempts used up', attempts) end
  end
  -- cluster: local missing = not_here(unread) or reasons[i] and elsewhere(dead_letters)
  -- cluster: if missing then return missing end
end
redis.call('ZREM', pool, '') -- takes nothing; behind a write, nothing is refused at maxmemory

local ended, ids, followers = {}, {}, {} -- leases, by topic, and their jobs; IDs of dead letters
local reply, some_returned = {}, false
for i = 1, #ARGV, FIELDS do
  local topic, id, job, reason = ARGV[i], ARGV[i + 1], jobs[i], reasons[i]
  local what = not job and whys[i] or reason and ARGV[i + 4] ~= BURY and EXHAUSTED or nil
  local has_follower = reason and string.byte(job[1]) == FOLLOWER_BYTE
  local failed = reason and bury(id, buckets .. id, topic, reason, ARGV[i + 5], has_follower)
  if failed then
    what, jobs[i] = failed.err, nil
  elseif job then
    ended[topic], ids[#ids + 1] = (ended[topic] or 0) - 1, id
    some_returned = some_returned or not reason
    if reason then redis.call('ZREM', pool, id) end
    if has_follower then followers[#followers + 1] = id end
  end
  if what then
    reply[#reply + 1], reply[#reply + 2] = (i - 1) / FIELDS + 1, what
  end
end

if some_returned then
  -- include: pool: announce; queue: make_ready wake_all; time: score_of; topics: register_wait
  local first_due = math.huge

  -- Puts the job at ARGV[i] into the pool, or into its queue, and a released one in front.
  local function put_back(i, job)
    local topic, id, delay, refund, text = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 3]), ARGV[i + 4] == REFUND, ARGV[i + 5]
    local name = buckets .. id
    local attempts, token, lent = read_lease(job[1])
    local left = lifetime_left(redis.call('PTTL', name), token, lent)
    if left >= 0 then left = left + delay end
    local lease = lease_text(math.max(refund and attempts - 1 or attempts, 0), token, 0, left)
    if string.byte(job[1]) == FOLLOWER_BYTE then lease = FOLLOWER_MARK .. lease end
    redis.call('HSET', name, 'lease', lease)
    if text ~= '' then redis.call('HSET', name, 'error', text) end
    if left >= 0 then redis.call('PEXPIRE', name, string.format('%d', left)) end
    if delay > 0 then
      redis.call('ZADD', pool, score_of(now + delay), id)
      register_wait(topic, now / 1000, (now + delay) / 1000)
      first_due = math.min(first_due, now + delay)
    else
      redis.call('ZREM', pool, id)
      local refused = make_ready(topic, id, refund and 'RPUSH')
      if refused then redis.call('ZADD', pool, score_of(now), id) end -- the server will name what keeps it out
    end
  end

  for i = 1, #ARGV, FIELDS do
    if jobs[i] and not reasons[i] then put_back(i, jobs[i]) end
  end
  count_reserved(ended, ids)
  if first_due < math.huge then announce(score_of(first_due), first_due - now) end
  wake_all()
else
  count_reserved(ended, ids)
end
if #followers == 0 then return reply end

-- include: keys: dead_letters; follow: follow_up
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
