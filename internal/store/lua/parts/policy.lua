-- Policies of pushes: which count once, and which are a burst.
--
-- If a push of an ID counts once no further one does for a while, whatever becomes of the job. Of several pushes in a burst one job comes.
-- include: time

-- For how long a push of that policy counts alone (ms), nil if that is not its policy; and its fingerprint, '' for none.
local function once_window(policy)
  if policy == REPLACE then return nil end
  local ms, fingerprint = string.match(policy, ONCE_FORM)
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

-- Whether the push of the ID that counts has another fingerprint. Not known of one without, or whose fingerprint could not be stored.
local function differs_from_counted(id, fingerprint)
  local until_ms = redis.call('ZSCORE', once, id)
  local counts = until_ms and redis.pcall('HGET', once_contents .. id, 'of')
  local first = type(counts) == 'string' and string.match(counts, '^' .. until_ms .. ' (.*)$')
  return first and first ~= fingerprint
end

-- Keeps the fingerprint of a push that was just counted, for as long as it counts (ms).
local function keep_fingerprint(id, fingerprint, window)
  local until_ms = redis.call('ZSCORE', once, id)
  redis.pcall('HSET', once_contents .. id, 'of', until_ms .. ' ' .. fingerprint)
  redis.pcall('PEXPIRE', once_contents .. id, string.format('%d', window))
end

-- How long after the first push of that policy a job is due at the latest (ms), nil for no limit.
local function debounce_limit(policy)
  local ms = policy ~= REPLACE and string.match(policy, DEBOUNCE_FORM)
  return ms and tonumber(ms)
end

-- When a job is due that would be due then, if that is so long (ms) after its first push at the latest. Without first, this is it.
local function debounced(limit, due, first)
  return math.max(math.min(due, (first or begun) + limit), begun)
end
