-- Shared.

-- An error reply if an ID that is taken out of the pool could not be put back, else nil.
-- No ID is empty, so nothing is written. Redis looks at the permission before it looks at
-- the memory, and a script that has written is not refused for want of memory.
local function may_not_put_back(pool)
  local probe = redis.pcall('ZADD', pool, 'XX', 0, '')
  if type(probe) == 'table' and probe.err and not string.find(probe.err, 'OOM', 1, true) then return probe end
end
