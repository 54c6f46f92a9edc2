-- IDs of which no further push counts for a while, whatever becomes of the job.

-- For how long a push of that policy counts alone (ms), nil if that is not its policy; then what it says, in short, '' if that is not to be
-- told apart.
local function once_window(policy)
  if policy == 'replace' then return nil end
  local ms, said = string.match(policy, '^once (%d+) ?(.*)$')
  return ms and tonumber(ms), said
end

-- Whether a push of the ID has counted, and no further one does.
-- include: keys: once; time: now
local function has_counted(id)
  local until_ms = redis.call('ZSCORE', once, id)
  return until_ms and tonumber(until_ms) - now > 0
end

-- Has the set of IDs be kept for so long (ms) at least.
-- include: keys: once
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end

-- Enters that a push of the ID has counted. Each that enters one takes out some that are over.
local OVER = 10
-- include: keep_once OVER; keys: once; time: now
local function enter_once(id, window)
  redis.call('ZADD', once, string.format('%d', now + window), id)
  keep_once(window)
  local over = redis.call('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
  if #over > 0 then redis.call('ZREM', once, unpack(over)) end
end
