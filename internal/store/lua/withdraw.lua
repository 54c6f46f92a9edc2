-- Shared.

-- How many entries of ready queues one call may walk over to take IDs out of their middle
-- (LREM walks the whole list). Where that is not enough the ID stays behind, and the pop
-- drops it when it comes to it: the bucket, not the list, says what is ready.
local entries_to_walk = 10000

-- Takes id out of a ready queue, unless that is too long or no list.
local function withdraw(ready, id)
  local length = redis.pcall('LLEN', ready)
  if type(length) == 'number' and length > 0 and length <= entries_to_walk then
    entries_to_walk = entries_to_walk - length
    redis.pcall('LREM', ready, 0, id)
  end
end
