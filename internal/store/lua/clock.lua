-- Shared.

-- Redis's own clock, in ms, rounded up. The last due time (Unix ms) that a score holds exactly.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.ceil(time[2] / 1000)
local LAST_MS = 9007199254740992

-- Milliseconds as a zset score: Unix seconds, with three decimals if need be. (Numbers
-- that are formatted as such, by %.3f or by Redis, take several times as long.)
local function score(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
