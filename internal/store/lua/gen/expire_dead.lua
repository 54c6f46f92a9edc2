-- expire_dead: deletes dead letters of some topics that are too old or too many, the oldest first.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_topics = prefix .. 'dead_topics'
local dead_letters = prefix .. 'dead_letter:'
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
local dead_lists = prefix .. 'dead_letters:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local PAGE = 150 -- topics
local cutoff = string.format('%d', now - ARGV[1])
local most, left = tonumber(ARGV[2]), tonumber(ARGV[3])
local began = ARGV[6] ~= '' and ARGV[6] or string.format('%d', now)
local err = not_permitted('ZREM', dead_topics, '')
if err then return err end
local reply = {ARGV[4] ~= '' and ARGV[4] or '-inf', ARGV[5], began, ''}

-- Deletes the oldest of a topic's letters, and scores the topic by the oldest that is left, if any. Returns an error reply if that fails,
-- and has changed nothing then.
local function expire(topic, list, all)
  local ids = redis.pcall('ZRANGEBYSCORE', list, '-inf', cutoff, 'LIMIT', 0, left)
  local too_many = most > 0 and math.min(all - most, left) or 0
  if too_many > #ids and not ids.err then ids = redis.pcall('ZRANGE', list, 0, too_many - 1) end
  if ids.err then return ids end
  if #ids > 0 then
    local names = {}
    for k, id in ipairs(ids) do names[k] = dead_letters .. id end
    local deleted = redis.pcall('DEL', unpack(names))
    if type(deleted) == 'table' then return deleted end
    redis.call('ZREM', list, unpack(ids))
    reply[#reply + 1], reply[#reply + 2] = topic, ids
    left = left - #ids
  end
  local oldest = redis.pcall('ZRANGE', list, 0, 0, 'WITHSCORES')
  if oldest[2] then
    redis.pcall('ZADD', dead_topics, oldest[2], topic)
  elseif not oldest.err then
    redis.call('ZREM', dead_topics, topic)
  end
end

local first = page_after(dead_topics, ARGV[4], ARGV[5])
local page = redis.call('ZRANGE', dead_topics, first, first + PAGE - 1, 'WITHSCORES')
local ended = #page < 2 * PAGE
for i = 1, #page, 2 do
  local topic, score = page[i], page[i + 1]
  local too_old = score - cutoff <= 0
  if score - began > 0 or most == 0 and not too_old then
    ended = true -- the others are newer still
    break
  end
  local list = dead_lists .. topic
  local all = redis.pcall('ZCOUNT', list, '-inf', '+inf')
  local refused
  if all == 0 or type(all) == 'table' and not unreadable(all) then
    redis.call('ZREM', dead_topics, topic)
  elseif type(all) == 'table' then
    refused = all
  elseif too_old or all > most then
    refused = expire(topic, list, all)
  end
  if refused and reply[4] == '' then reply[4] = refused.err end
  if left <= 0 then -- the topic may have more
    ended = false
    break
  end
  reply[1], reply[2] = score, topic
end
if ended then reply[1] = '' end
return reply
