-- reschedule: gives a waiting, ready or reserved job a new due time. Its lifetime once it is ready stays the same.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   ARGV[1] ID   ARGV[2] delay (ms)
-- Returns 1, or 0 if there is no such job. Errors: WRONGTYPE, OOM, NOPERM. Nothing has changed then.
-- Atomic because the job must not be moved or taken between the read and the write. Cost: as push.
-- include: guard lease pool queue time topics
local bucket, id = KEYS[2], ARGV[1]

local topic = redis.call('HGET', bucket, 'topic')
if not topic then return 0 end
local lease = redis.call('HGET', bucket, 'lease')
local ready = queues .. topic
local due = now + ARGV[2]
local waits = redis.call('ZSCORE', pool, id)
local reserved = waits and is_lease(waits)
local ttl = redis.call('PTTL', bucket)
local attempts, token, lent, expires = read_lease(lease)
local anew = pushed_again(ttl, expires)
if reserved then
  ttl = lifetime_left(ttl, token, lent)
  lent = 0
end
if not waits and due == now then return 1 end
local err = not_a_list(ready) or not_permitted('PEXPIRE', bucket, '1') or due == now and not_writable()
if err then return err end

local length
if due > now then
  -- ZADD is refused at maxmemory, LREM is not: ZADD goes first.
  redis.call('ZADD', pool, score_of(due), id)
  if not waits then withdraw(topic, id) end
else
  -- Out of the pool first: a script that has written is not refused at maxmemory.
  redis.call('ZREM', pool, id)
  length = redis.pcall('LPUSH', ready, id)
  if type(length) == 'table' then
    redis.call('ZADD', pool, waits, id)
    return length
  end
end
if ttl >= 0 then
  local until_due = waits and not reserved and math.max(tonumber(waits) * 1000 - now, 0) or 0
  if until_due < ttl then ttl = ttl - until_due end
  ttl = ttl + due - now
  redis.call('PEXPIRE', bucket, string.format('%.0f', ttl))
end
if anew then
  redis.pcall('HDEL', bucket, 'lease', 'options', 'error', 'next', 'next_body') -- as a push of ours would have
elseif lease then
  redis.pcall('HSET', bucket, 'lease', keep_follower(lease, lease_text(attempts, token, lent, ttl)))
end
if reserved then count_reserved({[topic] = -1}, {id}) end
register_wait(topic, now / 1000, due / 1000)
if length then wake(topic, length) else announce(score_of(due), due - now) end
return 1
