-- Bursts of pushes that are one job.
-- include: time: begun

-- How long after the first push of that policy a job is due at the latest (ms), nil for no limit.
local function debounce_limit(policy)
  local ms = policy ~= 'replace' and string.match(policy, '^debounce (%d+)$')
  return ms and tonumber(ms)
end

-- When a job is due that would be due then, if that is so long (ms) after its first push at the latest. Without first, this is it.
local function debounced(limit, due, first)
  return math.max(math.min(due, (first or begun) + limit), begun)
end
