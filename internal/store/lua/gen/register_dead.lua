-- register_dead: registers topics that have dead letters but are not known, as earlier migrations left them.
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
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_topics = prefix .. 'dead_topics'
local USED_EACH = 60
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
local known_topics = prefix .. 'topics'
local most = tonumber(ARGV[1])
local first = page_after(dead_topics, ARGV[2], ARGV[3])
local page = redis.call('ZRANGE', dead_topics, first, first + most - 1, 'WITHSCORES')
if #page == 0 then return {'', ''} end
local entries = {}
for i = 1, #page, 2 do entries[i], entries[i + 1] = used_at(now_s), page[i] end
redis.pcall('ZADD', known_topics, 'NX', unpack(entries))
if #page < 2 * most then return {'', ''} end
return {page[#page], page[#page - 1]}
