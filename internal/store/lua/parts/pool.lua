-- Entries of the job pool.

-- Tells the servers of a job in the pool with that score, which falls due in so many ms, if it
-- is the next to fall due: they sleep until the one that was. What is overdue does not count,
-- as it may be stuck. A permission that is missing is no reason to fail: servers look by
-- themselves, too.
-- include: go: ANNOUNCED_WITHIN; keys: pool first_due_channel; time: time
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end

-- The score of job k, from 0 on, of those that can't be moved and are to be tried again from a
-- time on (Unix ms): ten in each ms, so that trying them costs Redis little.
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
