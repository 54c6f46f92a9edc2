-- get: reads a job, or a dead letter.
local READY = 'ready'
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local RESERVED = 'reserved'
local WAITING = 'waiting'
local DEAD = 'dead'
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local FOLLOWER_BYTE = 43
local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
local function fields_of(key)
  return redis.call('HMGET', key, 'topic', 'body', 'lease', 'options', 'error', 'reason', 'died')
end

local job, key, due = fields_of(KEYS[2]), KEYS[2], ''
local state = READY
if job[1] then
  local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if score then
    due, state = score, job[3] and is_lease(score) and RESERVED or WAITING
  end
else
  job, key, state = fields_of(KEYS[3]), KEYS[3], DEAD
  if not job[1] then return {} end
  due = string.format('%.3f', (job[7] or 0) / 1000)
end
local attempts, token = read_lease(job[3])
local most, ttr, _, headers = read_options(job[4])
return {state, job[1], job[2] or '', redis.call('PTTL', key), due, attempts, most, job[5] or '', job[6] or '', token, ttr,
  state ~= DEAD and has_follower(job[3]) and 1 or 0, headers}
