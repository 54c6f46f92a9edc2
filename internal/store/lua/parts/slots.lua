-- The slots of a topic with a limit on concurrency: a sorted set of its reserved jobs, scored by the ends of their leases. The pool decides: a
-- slot whose score has passed is free unless the lease was extended.
-- include: lease

local PLACES = 1000 -- slots that one call checks whose leases seem to be over
local OTHERS = 200  -- and other slots

-- A lease's end (Unix µs) as a slot's score. Redis reads all scores of a short set at each change, and whole numbers many times faster.
local function slot_score(at) return string.format('%.0f', at) end

-- The slots among ids whose jobs have no lease at a time (Unix µs), or an error reply. With changes, slots of extended leases get new scores.
local function free_among(set, ids, at, changes)
  local free = {}
  if #ids == 0 then return free end
  local scores = redis.pcall('ZMSCORE', pool, unpack(ids))
  if scores.err then return scores end
  for i, id in ipairs(ids) do
    local score = scores[i] and tonumber(scores[i])
    if not score or score * 1000000 <= at or not is_lease(score) then
      free[#free + 1] = id
    elseif changes then
      redis.pcall('ZADD', set, slot_score(score * 1000000), id)
    end
  end
  return free
end

-- How many slots of the topic are taken at a time (Unix µs), or an error reply. Slots whose leases have ended are free. With most the number
-- only has to be right above it, and free slots are removed. If more seem taken, it also checks some of the others: a program that does
-- not know slots may have ended their leases.
local function count_slots(topic, at, most)
  local set = slots .. topic
  local all = redis.pcall('ZCOUNT', set, '-inf', '+inf')
  if type(all) == 'table' or most and all <= most then return all end
  local past = redis.pcall('ZRANGE', set, '-inf', slot_score(at), 'BYSCORE', 'LIMIT', 0, PLACES)
  if past.err then return past end
  local free = free_among(set, past, at, most)
  if free.err then return free end
  if not most then return all - #free end
  if all - #free > most then
    local first = redis.pcall('ZRANGE', set, 0, OTHERS - 1)
    free = first.err and first or free_among(set, first, at)
    if free.err then return free end
  end
  local left = all - #free
  if left == 0 then free[#free] = nil end -- one entry stays: a key that ends while its hash slot moves can't be written again
  if #free > 0 then redis.pcall('ZREM', set, unpack(free)) end
  return left
end
