-- IDs whose push counts once: no further push does for a while, whatever becomes of the job.
-- include: time: now

-- For how long a push of that policy counts alone (ms), nil if that is not its policy; and its fingerprint, '' for none.
local function once_window(policy)
  if policy == 'replace' then return nil end
  local ms, fingerprint = string.match(policy, '^once (%d+) ?(.*)$')
  return ms and tonumber(ms), fingerprint
end

-- Whether a push of the ID counts, and no further one does.
local function has_counted(id)
  local until_ms = redis.call('ZSCORE', once, id)
  return until_ms and tonumber(until_ms) - now > 0
end

-- Keeps the set of IDs for so long at least (ms).
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end

-- Registers that a push of the ID counts. Each such push removes some IDs whose time is over.
local OVER = 10
local function count_once(id, window)
  redis.call('ZADD', once, string.format('%d', now + window), id)
  keep_once(window)
  local over = redis.call('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
  if #over > 0 then redis.call('ZREM', once, unpack(over)) end
end
