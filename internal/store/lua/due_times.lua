-- When jobs fall due; shared.

-- The last due time (Unix ms) that a score holds exactly.
local LAST_MS = 2 ^ 53

-- Redis's own clock, in ms, rounded up.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.ceil(t[2] / 1000)
end

-- Milliseconds as a zset score: Unix seconds, with three decimals if need be.
-- (%.3f of a double takes several times as long.)
local function score(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end

-- Whether a job that is put into the pool, due at due (ms), will be the next to
-- fall due; an error reply if the pool is none. Asked before the first write.
local function is_next_due(pool, due, now)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. score(now), score(due))
  if type(sooner) == 'table' then
    return redis.error_reply(sooner.err .. ' (job pool ' .. pool .. ')')
  end
  return sooner == 0
end

-- Tells the servers that a job is now the next to fall due, in so many ms, for
-- they sleep until the one that was. A channel that may not be written to is no
-- reason to fail, as they look by themselves, too.
local function tell(channel, wait)
  redis.pcall('PUBLISH', channel, string.format('%d', wait))
end
