-- extend: gives leases that are held a new end.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with
-- ARGV[2…] of each job: topic, ID, token, how long the lease is to last from now on (ms). No ID
-- stands there twice, and there are 1,000 jobs at most.
--
-- Returns the new end of each lease, in Unix µs; 0 if the lease is lost, and nothing has changed.
-- Errors: WRONGTYPE of the pool, a permission that is missing; nothing has changed then.
--
-- Atomic because the lease must not end between the look at it and the change.
-- Cost: O(log n) of the pool for each job.
local pool, buckets = KEYS[1], ARGV[1]
local err = not_writable(pool) or not_permitted('PEXPIRE', buckets .. ARGV[3], '1')
  or not_permitted('HSET', buckets .. ARGV[3], 'lease', '')
if err then return err end
-- Takes nothing. What comes behind a write is not refused at maxmemory.
redis.call('ZREM', pool, '')
local ends = {}
for i = 2, #ARGV, 4 do
  local id, length = ARGV[i + 1], ARGV[i + 3]
  local name = buckets .. id
  local was, at = redis.call('ZSCORE', pool, id), 0
  local job, unread = held(was, name, ARGV[i], ARGV[i + 2])
  if unread then return unread end
  if job then
    local score
    at, score = lease_end(length)
    local ttl = redis.call('PTTL', name)
    if ttl >= 0 and ttl < LENT * length then
      local more = math.ceil(at / 1000 - was * 1000)
      local attempts, token, lent = read_lease(job[1])
      redis.call('HSET', name, 'lease', lease_text(attempts, token, lent + more))
      redis.call('PEXPIRE', name, string.format('%d', math.max(ttl + more, 1)))
    end
    redis.call('ZADD', pool, score, id)
  end
  ends[#ends + 1] = at
end
return ends
