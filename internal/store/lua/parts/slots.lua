-- The slots of a topic whose limit says how many of its jobs are reserved at a time: a sorted set of these jobs, by the ends of their
-- leases. The pool decides: a slot whose score is over is free unless the job's lease was extended.
-- include: lease

local PLACES = 1000   -- slots that one call checks, of leases that seem to be over,
local LOOKED_AT = 200 -- and of others

-- A lease's end (Unix µs) as a slot's score. At each change of a short set Redis reads all scores, whole numbers many times faster.
local function slot_score(at) return string.format('%.0f', at) end

-- Those of some slots whose jobs have no lease then (Unix µs), or an error reply. With changes, slots of extended leases get new scores.
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

-- How many slots of the topic are taken then (Unix µs), or an error reply. Those whose leases have ended are free. With most it need be
-- right only above that, and forgets free slots; if there seem to be more, it also checks some of the others, whose leases somebody may
-- have ended who knows of no slots.
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
    local first = redis.pcall('ZRANGE', set, 0, LOOKED_AT - 1)
    free = first.err and first or free_among(set, first, at)
    if free.err then return free end
  end
  if #free > 0 then redis.pcall('ZREM', set, unpack(free)) end
  return all - #free
end
