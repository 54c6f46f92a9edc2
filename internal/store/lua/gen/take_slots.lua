-- take_slots: assigns slots to jobs of a topic that were reserved before its limit was set, one page of the pool per call.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local slots = prefix .. 'slots:'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local uncounted = prefix .. 'uncounted'
local function exact_score(us)
  local rest = us % 1000000
  return string.format('%d.%06d', (us - rest) / 1000000, rest)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
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
local now_s = now_us / 1000000
local MAX_LEASE = 86400000
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local buckets = prefix .. 'job_bucket:'
local function slot_score(at) return string.format('%.0f', at) end
local PAGE = 200
local topic, set = ARGV[1], slots .. ARGV[1]
local err = not_permitted('ZADD', set, '0', '') or not_permitted('HDEL', uncounted, topic)
if err then return err end
local mark = redis.call('HGET', uncounted, topic)
if not mark then return {'', ''} end
local function finish()
  if mark == ARGV[4] then redis.call('HDEL', uncounted, topic) end
  return {'', ''}
end
local first = ARGV[2] == '' and redis.call('ZCOUNT', pool, '-inf', exact_score(now_us)) or page_after(pool, ARGV[2], ARGV[3])
local page = redis.call('ZRANGE', pool, first, first + PAGE - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  local id, score = page[i], page[i + 1]
  if tonumber(score) > now_s + MAX_LEASE / 1000 + 1 then return finish() end
  if is_lease(score) and redis.pcall('HGET', buckets .. id, 'topic') == topic then
    redis.call('ZADD', set, slot_score(score * 1000000), id)
  end
end
if #page < 2 * PAGE then return finish() end
return {page[#page], page[#page - 1]}
