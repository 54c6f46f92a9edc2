-- Leases, and the fields of a bucket about them.
-- include: guard pool time

-- Whether the score of an entry of the pool is the end of a lease: it is never a whole millisecond, and a due time always is. See Encodings
-- in docs/wire-format.md. (From 2106 on scores are too coarse to tell.)
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end

-- include: call: waking_left
-- Adds to the numbers of reserved jobs, by topic. They are estimates: old clients and servers, and users without the permission, do not keep
-- them. A number that is not above 0 is deleted. ids are the jobs whose leases a caller has ended, which frees their slots; nil if the
-- leases have ended by themselves.
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
      -- it is not kept
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      -- include: keys: slots; throttle: wake_throttled
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      wake_throttled(topic)
    end
  end
end

-- When a lease of this length (ms) ends that starts now: in µs, and as a score.
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end

-- Announces the earliest end of a lease (µs), which is due like a job. math.huge stands for no lease.
local function announce_end(at)
  if at < math.huge then announce(exact_score(at), math.ceil((at - now_us) / 1000)) end
end

-- Two fields of a bucket. Each is one text, since a missing field costs as much to read as an existing one.
--   lease    how often the job was reserved (released attempts excluded), the token of the last reserve, what was lent for it (ms), and
--            when the bucket expires, or later (Unix ms; 0 if unknown). Absent if the job was never reserved
--   options  the producer's terms: attempts, lease (ms), each 0 if the consumer decides, the lifetime once the job is ready (ms), and the
--            job's headers as a JSON object, if it has any. Absent if all are the defaults
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end

-- left is how long the bucket is kept from now on (ms); negative for ever.
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end

-- The mark of a follower in either field: whether it is there, the text with the mark, and a new text with the mark if the old one has it.
-- Scripts that end a lease read one field, and a pop reads the other. See Encodings in docs/wire-format.md.
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local function mark_follower(text) return has_follower(text) and text or FOLLOWER_MARK .. text end
local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end

-- Whether a client that does not know these fields, as the original's, has pushed the job again: its bucket, which expires in ttl ms, then
-- expires later than the lease says. On a busy machine two readings of the clock in one script may differ by CLOCK_SLACK ms.
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end

-- Attempts, lease and lifetime as above, and the headers, '' for none.
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end

-- A job's lifetime does not pass while it is reserved. Normally the time that has passed is added when the job returns. Only if the lifetime
-- is shorter than LENT times the lease, the bucket is lent the lease's length at once: it then does not expire, and its lifetime is
-- right even if the job never returns. Any other job loses the lease's length in that case: less than a hundredth.
local LENT = 100

-- How long a job is kept at least after its lease has ended by itself (ms), until a server has read the pool: ours read it once a minute at
-- least, the original's every timer_interval. What is missing is lent too.
local UNTIL_SEEN = 120000

-- What a bucket is lent for a lease of this length (ms) from now on; nil for nothing. left is how long it would be kept if the lease ended
-- now; negative for ever.
local function loan(left, length)
  if left < 0 or left >= LENT * length and left - length >= UNTIL_SEEN then return nil end
  return length + math.max(UNTIL_SEEN - left, 0)
end

-- How long a reserved job would be kept if its lease ended now; -1 for ever. The token is when it was reserved, in µs.
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end

-- The fields lease, topic and those named of a reserved job's bucket. nil if the entry of the pool with that score (false for none) is not a
-- lease of a job of the topic with the token, or has ended; then an error reply if the bucket can't be read.
--
-- The token tells leases apart, whose ends may be the same µs: it is Redis's clock at the reserve, and greater than the previous token. So
-- the holder need not know the end, which is unknown if the reply to an extension was lost. The topic must match, since it decides where
-- the job goes.
local function leased_job(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%+?%d+ (%d+)') == token then return job end
end
