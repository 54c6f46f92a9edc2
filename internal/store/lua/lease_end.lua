-- Shared, behind clock, next_due and lease.
local now_us = time[1] * 1000000 + time[2]

-- A time in µs as a score.
local function exact_score(us)
  local rest = us % 1000000
  return string.format('%d.%06d', (us - rest) / 1000000, rest)
end

-- When a lease that begins now and lasts so many ms ends: in µs, and as a score.
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end

-- Tells the servers of the lease that ends first of those that were given an end (µs), if there
-- are any. It is due like any job.
local function announce_end(channel, pool, at)
  if at < math.huge then announce(channel, pool, exact_score(at), math.ceil((at - now_us) / 1000)) end
end
