-- Time, by Redis's own clock.

local time = redis.call('TIME')
-- Now, in µs. The values below derive from it, since arithmetic is faster than parsing time's strings, or math.ceil.
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
-- The current millisecond: what is due by then is due.
local begun = (now_us - now_us % 1000) / 1000
-- Now, in ms, rounded up: delays are counted from it.
local now = now_us % 1000 == 0 and begun or begun + 1
-- The last due time (ms) that a score holds exactly.
local LAST_MS = 9007199254740992

-- Milliseconds as a score: Unix seconds, with three decimals if needed. (Formatting a float by %.3f, or by Redis, takes several times as
-- long.)
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end

-- The same for µs.
local function exact_score(us)
  local rest = us % 1000000
  return string.format('%d.%06d', (us - rest) / 1000000, rest)
end

-- Starts a stopwatch: a function that returns the µs since. Redis from 7.4 on has os.clock; before that, TIME advances inside a script.
local function stopwatch()
  local os = rawget(_G, 'os')
  if os then
    local start = os.clock()
    return function() return math.floor((os.clock() - start) * 1000000) end
  end
  local start = redis.call('TIME')
  return function()
    local stop = redis.call('TIME')
    return (stop[1] - start[1]) * 1000000 + stop[2] - start[2]
  end
end
