-- topics: lists topics.
local function stands_before(a, b)
  for i = 1, math.min(#a, #b) do
    local of_a, of_b = string.byte(a, i), string.byte(b, i)
    if of_a ~= of_b then return of_a < of_b end
  end
  return #a < #b
end
local function entries_before(set, score, id)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('ZRANGE', set, middle, middle)[1]
    if stands_before(entry, id) then low = middle + 1 else high = middle end
  end
  return low
end
local function page_after(set, score, id)
  return score == '' and 0 or entries_before(set, score, id .. '\0')
end
local MAX_BYTES = 256 * 1024
local PAGE = 100 -- names read at a time, which may be large
local topics, last, most, part = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local all = redis.call('ZCARD', topics)
local first = math.max(all - last, 0)
if ARGV[4] ~= '' then first = page_after(topics, ARGV[4], ARGV[5]) end

local reply, names_read, bytes = {all, '', ''}, 0, 0
while names_read < most and bytes < MAX_BYTES do
  local page = redis.call('ZRANGE', topics, first + names_read, first + math.min(names_read + PAGE, most) - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local topic = page[i]
    bytes = bytes + #topic
    if part == '' or string.find(topic, part, 1, true) then reply[#reply + 1] = topic end
  end
  names_read = names_read + #page / 2
  if first + names_read >= all then
    reply[2], reply[3] = '', ''
    break
  end
  reply[2], reply[3] = page[#page], page[#page - 1]
end
return reply
