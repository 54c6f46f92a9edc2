-- retry: returns reserved jobs, to be delivered again now or later. One whose attempts are used up becomes a dead letter instead, and its
-- follower takes its place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token; the delay (ms; 0: it is ready at once); how many attempts it has if it
--   does not say so (0: any number), or 'refund': this attempt does not count; and the error, or ''
-- Returns {place, what, place, what, …} of the jobs that it did not return: LEASE_LOST; EXHAUSTED, it is a dead letter now; or the error, a
-- text. Nothing has changed for those with LEASE_LOST or an error.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because a job must be leased, in the pool, ready or dead, never in two of these or in none.
-- Cost: O(log n) of the pool, and of the topic's dead letters, for each job.
-- include: guard lease pool queue time topics cluster
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
    -- include: cluster: elsewhere; keys: dead_letters
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
    -- include: dead: bury; go: EXHAUSTED FOLLOWER_BYTE
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

-- include: keys: dead_letters; follow: follow_up
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
