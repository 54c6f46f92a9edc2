-- Bursts of pushes that are one job.

-- How long after the first push of that policy a job falls due at the latest (ms), nil if there is no such limit.
local function debounce_limit(policy)
  local ms = policy ~= 'replace' and string.match(policy, '^debounce (%d+)$')
  return ms and tonumber(ms)
end

-- When a job falls due that would at that time, if it does so long (ms) after the first push at the latest. That was
-- at the time first, or else is this one.
-- include: time: begun
local function debounced(limit, due, first)
  return math.max(math.min(due, (first or begun) + limit), begun)
end
