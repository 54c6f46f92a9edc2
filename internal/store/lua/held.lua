-- Shared, behind clock and lease.
local now_s = time[1] + time[2] / 1000000

-- Whether the entry of the pool with that score, false if there is none, is still the
-- lease of a job of that topic with that end (Unix s) and token. By a call whose answer was lost
-- the lease may have been extended, or its end was never known (0); then the token in the bucket
-- tells whose it is. The topic must be right, too: it decides where the job goes.
local function is_held(score, bucket, topic, ends, token)
  if not score or score - now_s <= 0 then return false end
  if score - ends == 0 then return true end
  local job = is_lease(score) and redis.pcall('HMGET', bucket, 'lease', 'topic')
  return type(job) == 'table' and type(job[1]) == 'string' and string.match(job[1], '^%d+ (%d+)') == token
    and job[2] == topic
end
