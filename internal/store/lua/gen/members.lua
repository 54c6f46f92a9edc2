-- members: reads IDs that wait, are ready, or are dead. A sequence of calls reads each ID that stays where it is at least once.
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
