-- Fingerprints of pushes that count once.

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
