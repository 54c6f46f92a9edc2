-- Shared.

-- How long a ready queue may be for an ID in its middle to be taken out (LREM
-- walks the whole list). In a longer one the ID stays behind, and the take
-- drops it when it comes to it: the bucket, not the list, says what is ready.
local WITHDRAW_FROM = 10000

-- Takes id out of a ready queue, unless that is long or no list.
local function withdraw(ready, id)
  local length = redis.pcall('LLEN', ready)
  if type(length) == 'number' and length > 0 and length <= WITHDRAW_FROM then
    redis.pcall('LREM', ready, 0, id)
  end
end
