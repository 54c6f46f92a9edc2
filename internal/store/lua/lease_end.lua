-- Shared, behind clock and lease.
local now_us = time[1] * 1000000 + time[2]

-- When a lease that begins now and lasts so many ms ends: in µs, and as a score.
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  local rest = at % 1000000
  return at, string.format('%d.%06d', (at - rest) / 1000000, rest)
end
