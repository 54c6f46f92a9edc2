-- Entries of the job pool.
-- include: time

-- Announces to the servers that a job with this score is due in wait ms, if it is the next one: they sleep until the previous next one. Overdue jobs
-- do not count, as they may be stuck. No permission is no failure: servers also read the pool by themselves.
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end

-- The score of the k-th job, from 0 on, that can't be moved: ten per ms from a time on (Unix ms), so that their retries cost Redis little.
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
