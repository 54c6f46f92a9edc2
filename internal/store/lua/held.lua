-- Shared, behind clock and lease.
local now_s = time[1] + time[2] / 1000000

-- Whether the entry of the pool with that score, false if there is none, is still the
-- lease with that end (Unix s) and token. By a call whose answer was lost the lease may
-- have been extended; then the token in the bucket tells whose it is.
local function is_held(score, bucket, ends, token)
  if not score or score - now_s <= 0 then return false end
  if score - ends == 0 then return true end
  local lease = is_lease(score) and redis.pcall('HGET', bucket, 'lease')
  return type(lease) == 'string' and string.match(lease, '^%d+ (%d+)') == token
end
