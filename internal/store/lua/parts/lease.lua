-- Leases, and the fields of a bucket that tell of them.
-- include: guard pool time

-- Whether the score of an entry of the pool is the end of a lease: that is never a whole millisecond, as all due times are. See
-- Encodings in docs/wire-format.md. (From 2106 on scores are too coarse to tell.)
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end

-- Adds to the numbers of reserved jobs, by topic. A number may be wrong, as old clients and servers, and users who may not, don't keep it.
-- One that is not above 0 is deleted. ids are the jobs whose leases a caller has ended, which free their slots; nil if the leases have
-- ended by themselves.
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

-- The end of a lease of so many ms that begins now: in µs, and as a score.
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end

-- Announces the first of the leases' ends that were set (µs), if there are any: it is due like a job.
local function announce_end(at)
  if at < math.huge then announce(exact_score(at), math.ceil((at - now_us) / 1000)) end
end

-- Two fields of a bucket. Each is one text, since a field that is missing costs as much to read as one that is there.
--   lease    how often the job was reserved (less what was released), the token of the last reserve, what was lent for it (ms), and when
--            the bucket expires, or later (Unix ms; 0 if not known). Absent if it never was reserved
--   options  of its producer: how many attempts it has, for how long it is reserved (ms), each 0 if the consumer decides, and for how
--            long it is kept once it is ready (ms). Absent if all is as usual
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end

-- left is for how long the bucket is kept from now on (ms), negative for ever.
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end

-- The mark of a follower in the text of a lease: whether it has one, the text with one, and another text with the one that
-- the text before it had. See Encodings in docs/wire-format.md.
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local function mark_follower(text) return has_follower(text) and text or FOLLOWER_MARK .. text end
local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end

-- Whether somebody has pushed the job again who does not know these fields, as the original's clients: then its bucket, which expires
-- in ttl ms, expires later than the lease says. Two readings of Redis's clock may be that far apart in one script, on a busy machine.
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end

local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME end
  local most, ttr, lifetime = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME
end

local function options_text(most, ttr, lifetime)
  return string.format('%d %d %d', most, ttr, lifetime)
end

-- A job's lifetime stands still while it is reserved. As a rule the time that has passed is added when the job is returned. Only where
-- the lifetime is shorter than LENT times the lease, the bucket is lent the lease's length at once, so that it does not expire, and
-- its lifetime is right also if the job is not returned. Any other then loses the lease's length: less than a hundredth.
local LENT = 100

-- For how long a job is kept at least when its lease has ended by itself (ms), until a server has read the pool: ours do so once a minute at least,
-- the original each timer_interval. What is missing is lent, too.
local UNTIL_SEEN = 120000

-- What a bucket is lent for a lease of so many ms from now on, nil for nothing. left is for how long it would be kept if the lease ended
-- now, negative for ever.
local function loan(left, length)
  if left < 0 or left >= LENT * length and left - length >= UNTIL_SEEN then return nil end
  return length + math.max(UNTIL_SEEN - left, 0)
end

-- For how long a reserved job would be kept if its lease ended now; -1 for ever. The token is when it was reserved, in µs.
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end

-- The job whose lease is held: the fields lease, topic and those named of its bucket. nil if the entry of the pool with that score (false
-- for none) is not the lease of a job of that topic with that token, or has ended; then, if that can't be read, the error reply.
--
-- The token tells leases apart, as their ends may be the same µs: it is Redis's clock at the reserve, and above the one before. So a holder
-- need not know the end, which is unknown if the answer to an extension was lost. The topic must be right, since it decides where the
-- job goes. Whatever else became of the job, its entry is no lease any more.
local function leased_job(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%+?%d+ (%d+)') == token then return job end
end
