-- ack: ends reserved jobs that are done. A job's follower takes its place.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token
-- Returns nil if all leases were held; else the 1-based positions of the jobs whose lease is lost, negated if the job is gone.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because the lease must not end between the check and the end of the job.
-- Cost: O(log n) of the pool for each job.
-- include: guard lease
local err = not_permitted('ZREM', pool, '')
if err then return err end
local ids = {}
for i = 2, #ARGV, 3 do ids[#ids + 1] = ARGV[i] end
local scores = redis.call('ZMSCORE', pool, unpack(ids))

local lost, done, names, ended, followers = {}, {}, {}, {}, nil
for k = 1, #ids do
  local i = 3 * k - 2
  local name = buckets .. ids[k]
  local job, unread = leased_job(scores[k], name, ARGV[i], ARGV[i + 2])
  if unread then return unread end
  if not job then
    lost[#lost + 1] = not scores[k] and redis.call('EXISTS', name) == 0 and -k or k
  elseif string.byte(job[1]) == FOLLOWER_BYTE then
    followers = followers or {}
    followers[#followers + 1] = ids[k]
  else
    done[#done + 1], names[#names + 1] = ids[k], name
  end
  if job then ended[ARGV[i]] = (ended[ARGV[i]] or 0) - 1 end
end
if followers then
  -- include: follow: not_followable
  err = not_followable(followers[1], buckets .. followers[1])
  if err then return err end
end
if #done > 0 then
  -- Buckets first: a pool entry without one is dropped later, but a bucket without an entry would stay for ever.
  redis.call('DEL', unpack(names))
  redis.call('ZREM', pool, unpack(done))
elseif not followers then -- a server that takes no writes may not know of the leases
  err = not_writable()
  if err then return err end
  return lost
else
  redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
end
local acked = #done + (followers and #followers or 0)
if followers then
  for _, id in ipairs(followers) do done[#done + 1] = id end
end
count_reserved(ended, done)
-- For Stats; best effort. (Redis takes long to format a number.)
redis.pcall('INCRBY', acked_count, acked == 1 and '1' or acked)
if not followers then return #lost > 0 and lost or nil end

-- include: follow: follow_up
for _, id in ipairs(followers) do follow_up(id, buckets .. id) end
return lost
