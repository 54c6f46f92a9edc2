-- Leases, and the fields of a job's bucket that tell of them.

-- Whether the score of an entry of the pool is the end of a lease: that is never a whole millisecond, as all due times are. See
-- Encodings in docs/wire-format.md. (From 2106 on scores are too coarse to tell.)
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end

-- Changes the numbers of reserved jobs by so much, by topic. A number may be wrong, since
-- old clients and servers don't keep it, and users who may not. One that is not above 0 is deleted.
-- ids are the jobs whose leases have been ended, nil if these have ended by themselves: of a topic with a limit, which its number
-- tells, they have slots no more. See LIMIT_MARK.
-- include: keys: reserved_counts; go: HAS_SLOTS
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
      -- it is not kept
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      -- include: keys: slots; held: let_go_on
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      let_go_on(topic)
    end
  end
end

-- When a lease that begins now and lasts so many ms ends: in µs, and as a score.
-- include: time: now_us exact_score
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end

-- Tells the servers of the lease that ends first of those that were given an end (µs), if there
-- are any. It is due like any job.
-- include: time: now_us exact_score; pool: announce
local function announce_end(at)
  if at < math.huge then announce(exact_score(at), math.ceil((at - now_us) / 1000)) end
end

-- Two fields of a bucket, each one text, since what is not there costs as much to read as what is:
--   lease    how often the job was reserved (less what was released), the token of the last
--            reserve, what was lent for it (ms), and when the bucket expires, or a later time (Unix
--            ms), 0 if that is not known; absent if it never was. A + stands before it if the job has a follower
--   options  what its producer says: how many attempts it has and for how long it is reserved
--            (ms), 0 if that is the consumer's affair; and how long it is kept once it is
--            ready (ms). Absent if all is as usual
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end

-- left is for how long the bucket is kept from now on (ms), negative for ever.
-- include: time: now
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end

-- The mark of a follower in the text of a lease: whether it has one, the text with one, and another text with the one that
-- the text before it had. See Encodings in docs/wire-format.md.
-- include: go: FOLLOWER_BYTE
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
-- include: has_follower; go: FOLLOWER_MARK
local function mark_follower(text) return has_follower(text) and text or FOLLOWER_MARK .. text end
-- include: has_follower; go: FOLLOWER_MARK
local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end

-- Whether the job was pushed anew by somebody who doesn't know of these fields, as the original's
-- clients don't: then its bucket, which expires in ttl ms, expires later than it said. Two readings of
-- Redis's clock may be that far apart in one script, on a busy machine.
local CLOCK_SLACK = 500
-- include: CLOCK_SLACK; time: now
local function pushed_anew(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end

-- include: go: DEFAULT_LIFETIME
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME end
  local most, ttr, lifetime = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME
end

local function options_text(most, ttr, lifetime)
  return string.format('%d %d %d', most, ttr, lifetime)
end

-- A job's lifetime stands still while it is reserved. That is seldom worth a write: the time
-- that has passed is given back when the job is. Only where the lifetime is shorter than LENT
-- times the lease, the bucket is lent the lease's length at once, so that it does not expire.
-- The lifetime of a job with such a loan is right even if the job is not given back. Another
-- one then loses the lease's length, which is less than a hundredth of its lifetime.
local LENT = 100

-- For how long a job is kept at least when its lease has ended by itself (ms), however short its
-- lifetime: until somebody has looked at the pool. This project's servers do that once a minute
-- at least, the original's every timer_interval. What is missing to that is lent, too.
local UNTIL_SEEN = 120000

-- What a bucket is lent for a lease that lasts so many ms from now on, nil if nothing. left is for
-- how long it would be kept if the lease ended now, negative for ever.
-- include: LENT UNTIL_SEEN
local function loan(left, length)
  if left < 0 or left >= LENT * length and left - length >= UNTIL_SEEN then return nil end
  return length + math.max(UNTIL_SEEN - left, 0)
end

-- How long a reserved job would be kept from now on if its lease ended now; -1 for ever. The
-- token is when the job was reserved, in µs.
-- include: time: now
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end

-- The job whose lease is held: the fields lease, topic and those named of its bucket. nil if the
-- entry of the pool with that score, false if there is none, is not the lease of a job of that
-- topic with that token, or has ended. Then, if that can't be read, the error reply.
--
-- The token tells a lease, not its end: leases are whole milliseconds long, and so two of one job
-- towards one deadline may end in the same microsecond. No two leases of an ID have the same
-- token, for it is Redis's clock at the reserve, and above the one before. Nor need a holder know
-- the end, which he doesn't when the answer to an extension was lost. The topic must be right, too:
-- it decides where the job goes. Whatever else became of the job, its entry is no lease any more.
-- include: is_lease; time: now_s; guard: unreadable
local function leased_job(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%+?%d+ (%d+)') == token then return job end
end
