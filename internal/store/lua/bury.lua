-- bury: makes dead letters of reserved jobs. A follower takes its job's place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token, reason, and the last error or ''
--
-- Returns {place, why, place, why, …}, with the 1-based places of the jobs that it did not bury: LEASE_LOST; or the error,
-- a text. Nothing has changed of these.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
--
-- Atomic because the lease must not end between the check and the change.
-- Cost: O(log n) of the pool and of the topic's dead letters for each job.
-- include: dead: bury; lease: count_reserved leased_job; cluster: elsewhere
local FIELDS = 5
-- A dead letter has a name that is not there yet. One job's answer would not be tried again, the call is.
-- cluster: local missing = elsewhere(dead_letters)
-- cluster: if missing then return missing end
redis.call('ZREM', pool, '') -- takes nothing; behind a write, nothing is refused at maxmemory
local asked = {}
for i = 2, #ARGV, FIELDS do asked[#asked + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(asked)) -- all at once: the pool may end with the first of them
local reply, ended, ids, followers = {}, {}, {}, nil
for i = 1, #ARGV, FIELDS do
  local topic, id = ARGV[i], ARGV[i + 1]
  local name = buckets .. id
  local job, failed = leased_job(scores[(i - 1) / FIELDS + 1], name, topic, ARGV[i + 2])
  local has_follower = job and string.byte(job[1]) == FOLLOWER_BYTE
  if job then failed = bury(id, name, topic, ARGV[i + 3], ARGV[i + 4], has_follower) end
  local why = failed and failed.err or not job and LEASE_LOST
  if why then
    reply[#reply + 1], reply[#reply + 2] = (i - 1) / FIELDS + 1, why
  else
    redis.call('ZREM', pool, id)
    if has_follower then
      followers = followers or {}
      followers[#followers + 1] = id
    end
    ended[topic], ids[#ids + 1] = (ended[topic] or 0) - 1, id
  end
end
count_reserved(ended, ids)
if not followers then return reply end

-- include: follow: follow_up; keys: dead_letters
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
