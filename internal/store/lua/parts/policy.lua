-- Policies of pushes: 'once' makes a push the only one of its ID for a time, whatever happens to the job; 'debounce' makes one job of a
-- burst of pushes.
-- include: guard time

-- How long a push of this policy is the only one (ms), nil for another policy; and its fingerprint, '' for none.
local function once_window(policy)
  if policy == DEFAULT then return nil end
  local ms, fingerprint = string.match(policy, ONCE_FORM)
  return ms and tonumber(ms), fingerprint
end

-- Whether a push of the ID counts, so that further ones do not.
local function has_counted(id)
  local until_ms = redis.call('ZSCORE', once, id)
  return until_ms and tonumber(until_ms) - now > 0
end

-- Why a push can't be counted once, as an error reply, or nil.
local function not_once()
  return not_permitted('ZADD', once, '0', '') or not_permitted('PTTL', once) or not_permitted('PEXPIRE', once, '1')
    or not_permitted('ZRANGEBYSCORE', once, '0', '0') or not_permitted('ZREM', once, '')
end

-- Keeps the set of IDs for at least this time (ms).
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end

-- Registers that a push of the ID counts. Each such push also removes some IDs whose time is over.
local OVER = 10
local function count_once(id, window)
  redis.call('ZADD', once, string.format('%d', now + window), id)
  keep_once(window)
  local over = redis.call('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
  if #over > 0 then redis.call('ZREM', once, unpack(over)) end
end

-- Whether the push of the ID that counts has another fingerprint. false if either has none, or it could not be stored.
local function differs_from_counted(id, fingerprint)
  local until_ms = redis.call('ZSCORE', once, id)
  local counts = until_ms and redis.pcall('HGET', once_contents .. id, 'of')
  local first = type(counts) == 'string' and string.match(counts, '^' .. until_ms .. ' (.*)$')
  return first and first ~= fingerprint
end

-- Keeps the fingerprint of a push that was just counted, as long as it counts (ms).
local function keep_fingerprint(id, fingerprint, window)
  local until_ms = redis.call('ZSCORE', once, id)
  redis.pcall('HSET', once_contents .. id, 'of', until_ms .. ' ' .. fingerprint)
  redis.pcall('PEXPIRE', once_contents .. id, string.format('%d', window))
end

-- How long after the first push of this policy a job is due at the latest (ms); nil for no bound.
local function debounce_limit(policy)
  local ms = policy ~= DEFAULT and string.match(policy, DEBOUNCE_FORM)
  return ms and tonumber(ms)
end

-- When a job is due: at the given time, but at most limit ms after its first push. Without first, this is the first one.
local function debounced(limit, due, first)
  return math.max(math.min(due, (first or begun) + limit), begun)
end
