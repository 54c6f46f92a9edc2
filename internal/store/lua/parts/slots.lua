-- The slots of a topic whose limit says how many of its jobs are reserved at a time: a zset of these jobs, scored by when their leases end.
-- The pool decides: a slot whose lease would have ended is free unless the pool says that it was extended.
local PLACES = 1000   -- slots that one call looks at, of leases that seem to be over,
local LOOKED_AT = 200 -- and of others

-- A lease's end (Unix µs) as the score of its slot. Of a short zset Redis reads all scores at each change, and whole numbers many times faster.
local function slot_score(at) return string.format('%.0f', at) end

-- Those of some slots whose jobs have no lease at that time (Unix µs), or an error reply; and with changes, those that were extended are
-- scored anew.
-- include: slot_score; keys: pool; lease: is_lease
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

-- How many slots of the topic are taken at that time (Unix µs), or an error reply. Those whose leases have ended are free. With most it need
-- be right only above that: if there are no more, nobody looks which are free. Else, if there are more without those whose leases have ended,
-- some of the others are looked at, too: who knows nothing of slots may have ended their leases. What is free is forgotten then.
-- include: PLACES LOOKED_AT slot_score free_among; keys: slots
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
