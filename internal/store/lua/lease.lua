-- Shared.

-- Whether the score of an entry of the pool is the end of a lease: that is never a whole
-- millisecond, as all due times are. (From 2106 on scores are too coarse to tell.)
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end

-- Changes the numbers of reserved jobs by so much, by topic. A number may be wrong, since
-- old clients and servers don't keep it, and users who may not. One that is not above 0 is deleted.
local function count_reserved(reserved, by_topic)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved, topic, change)
    if type(count) == 'number' and count <= 0 then redis.pcall('HDEL', reserved, topic) end
  end
end
