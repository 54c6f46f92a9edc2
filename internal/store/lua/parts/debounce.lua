-- require: time
-- Bursts of pushes that are one job.

-- How long after the first push of that policy a job falls due at the latest (ms), nil if there is no such limit.
local function debounce_limit(policy)
  local ms = policy ~= 'replace' and string.match(policy, '^debounce (%d+)$')
  return ms and tonumber(ms)
end

-- When a job of that policy falls due that would at that time, and was pushed like that first at another, if it was.
local function debounced(policy, due, first)
  local limit = debounce_limit(policy)
  return limit and due and math.max(math.min(due, (first or begun) + limit), begun) or due
end
