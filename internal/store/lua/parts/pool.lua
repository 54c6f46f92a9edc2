-- Entries of the job pool.
-- include: time

-- Tells the servers that a job with that score is due in so many ms, if it is the next to be due: they sleep until the one that was. What
-- is overdue does not count, as it may be stuck. No permission is no failure: servers read the pool by themselves, too.
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end

-- The score of the k-th, from 0 on, of the jobs that can't be moved, which are retried from a time on (Unix ms): ten each ms, so that they
-- cost Redis little.
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
