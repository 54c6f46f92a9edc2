-- members: names some of the IDs that wait, are ready or are dead; in steps, of those that stay where they are each is named
-- once at least.
--
-- KEYS[1] the job pool, a ready queue or a topic's dead letters
-- ARGV[1] where to go on, as the last call said; 0 is the beginning   ARGV[2] how many, about
--
-- Returns {where to go on, 0 at the end; IDs}. Of a ready queue the next ones are named, in the order in which they are delivered,
-- and there is no more.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- Cost: O(IDs named).
local key = KEYS[1]
local type = redis.call('TYPE', key).ok
if type == 'list' then
  local ids, next = redis.call('LRANGE', key, -ARGV[2], -1), {}
  for i = #ids, 1, -1 do next[#next + 1] = ids[i] end
  return {'0', next}
end
local step = redis.call('ZSCAN', key, ARGV[1], 'COUNT', ARGV[2])
local ids = {}
for i = 1, #step[2], 2 do ids[#ids + 1] = step[2][i] end
return {step[1], ids}
