-- extend: sets new ends of held leases.
--
-- KEYS[1] job pool
-- ARGV of each job, 1,000 at most, no ID twice: topic, ID, token, how long the lease lasts from now on (ms)
-- Returns the new end of each lease (Unix µs); 0 if the lease is lost, and nothing has changed.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because the lease must not end between the check and the change.
-- Cost: O(log n) of the pool for each job.
-- include: guard lease slots
local err = not_writable() or not_permitted('PEXPIRE', buckets .. ARGV[2], '1')
  or not_permitted('HSET', buckets .. ARGV[2], 'lease', '')
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
local ends, first_end = {}, math.huge
for i = 1, #ARGV, 4 do
  local id, length = ARGV[i + 1], ARGV[i + 3]
  local name = buckets .. id
  local at = 0
  local before = redis.call('ZSCORE', pool, id)
  local job, unread = leased_job(before, name, ARGV[i], ARGV[i + 2])
  if unread then return unread end
  if job then
    local score
    at, score = lease_end(length)
    local ttl = redis.call('PTTL', name)
    local attempts, token, lent = read_lease(job[1])
    local left = lifetime_left(ttl, token, lent)
    local more = loan(left, length)
    if more then
      -- include: lease: keep_follower
      redis.call('HSET', name, 'lease', keep_follower(job[1], lease_text(attempts, token, lent + left + more - ttl, left + more)))
      redis.call('PEXPIRE', name, string.format('%d', left + more))
    end
    redis.call('ZADD', pool, score, id)
    if before - score > 0 then redis.pcall('ZADD', slots .. ARGV[i], 'XX', 'LT', slot_score(at), id) end -- see count_slots
    first_end = math.min(first_end, at)
  end
  ends[#ends + 1] = at
end
announce_end(first_end)
return ends
