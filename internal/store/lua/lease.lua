-- Shared.

-- Whether the score of an entry of the pool is the end of a lease: that is never a whole
-- millisecond, as all due times are. (From 2106 on scores are too coarse to tell.)
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end

-- Two fields of a bucket, each one text, since what is not there costs as much to read as what is:
--   lease    how often the job was reserved (less what was released), the token of the last
--            reserve, and what was lent for it (ms); absent if it never was
--   options  what its producer says: how many attempts it has, for how long it is reserved (ms; 0:
--            as the consumer says), and how long it is kept once it is ready (ms); absent if all is as usual
local DEFAULT_LIFETIME = 604800000

local function read_lease(text)
  if not text then return 0, 0, 0 end
  local attempts, token, lent = string.match(text, '^(%d+) (%d+) (%-?%d+)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0
end

local function lease_text(attempts, token, lent)
  return string.format('%d %d %d', attempts, token, lent)
end

local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME end
  local most, ttr, lifetime = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME
end

local function options_text(most, ttr, lifetime)
  return string.format('%d %d %d', most, ttr, lifetime)
end

-- A job's lifetime stands still while it is reserved. It is seldom worth a write: what is
-- over is given back when the lease is, and only where the lifetime is shorter than LENT times
-- the lease, the bucket is lent the lease's length at once. If such a job is not given back, its
-- lifetime is right; if another is not, the lease is charged to it, which is less than a hundredth.
local LENT = 100

-- How long a reserved job would be kept from now on if its lease ended now; -1 for ever. now is
-- in ms, the token when the job was reserved in µs.
local function lifetime_left(ttl, token, lent, now)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end

-- Changes the numbers of reserved jobs by so much, by topic. A number may be wrong, since
-- old clients and servers don't keep it, and users who may not.
local function count_reserved(reserved, by_topic)
  for topic, change in pairs(by_topic) do redis.pcall('HINCRBY', reserved, topic, change) end
end
