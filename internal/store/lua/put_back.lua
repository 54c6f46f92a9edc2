-- How jobs are put back into the pool that can't be moved; shared.

-- An error reply if this user, or this server, may not write to the pool, else
-- nil. Asked before the first write: then whatever is taken out of the pool
-- can be put back. That Redis is full is no reason: what has written is not
-- refused for that.
local function not_writable(pool)
  -- XX, GT and -inf: nothing changes, whatever is in the pool.
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end

-- The score of job k, from 0 on, of those that are to be tried again from a
-- time on (Unix ms): ten in each ms, so that trying them costs Redis little.
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
