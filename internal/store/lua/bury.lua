-- bury: makes dead letters of reserved jobs. A job's follower takes its place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token, reason, and the error, or ''
-- Returns {place, why, place, why, …} of the jobs that it did not bury: LEASE_LOST, or the error, a text. Nothing has changed for these.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because the lease must not end between the check and the burial.
-- Cost: O(log n) of the pool, and of the topic's dead letters, for each job.
-- include: dead lease cluster
local FIELDS = 5
local ids = {}
for i = 2, #ARGV, FIELDS do ids[#ids + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(ids)) -- all at once: the pool may end with the first of them
if IN_CLUSTER then -- before the first write, so that the whole call is refused, and tried again, while the slot moves
  -- include: cluster: elsewhere
  for k, id in ipairs(ids) do
    local job, unread = leased_job(scores[k], buckets .. id, ARGV[FIELDS * k - 4], ARGV[FIELDS * k - 2])
    local missing = unread and elsewhere(buckets .. id) or job and elsewhere(dead_letters)
    if missing then return missing end
  end
end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local reply, ended, buried, followers = {}, {}, {}, {}
for k, id in ipairs(ids) do
  local i, name = FIELDS * k - 4, buckets .. id
  local topic = ARGV[i]
  local job, err = leased_job(scores[k], name, topic, ARGV[i + 2])
  local has_follower = job and string.byte(job[1]) == FOLLOWER_BYTE
  if job then err = bury(id, name, topic, ARGV[i + 3], ARGV[i + 4], has_follower) end
  if err or not job then
    reply[#reply + 1], reply[#reply + 2] = k, err and err.err or LEASE_LOST
  else
    redis.call('ZREM', pool, id)
    ended[topic], buried[#buried + 1] = (ended[topic] or 0) - 1, id
    if has_follower then followers[#followers + 1] = id end
  end
end
count_reserved(ended, buried)
if #followers == 0 then return reply end

-- include: follow: follow_up
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
