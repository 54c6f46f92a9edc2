-- browse_dead: reads some of a topic's dead letters, the newest or the oldest first.
--
-- KEYS[1] the topics that have any   KEYS[2] the topic's dead letters
-- ARGV[1…6] as browse (parts/browse.lua); the position is a score and an ID   ARGV[7] 'oldest' to begin with these, else ''
-- ARGV[8] 'stale' to tell entries without a letter, too, with the topic '', else ''
--
-- Returns what browse does, with scores.
-- Errors: WRONGTYPE of the list, NOPERM.
--
-- Atomic so that entries and content belong together.
-- Cost: O(log n) of the list, and O(entries read).
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_letters = prefix .. 'dead_letter:'
local function job_of(name)
  return redis.pcall('HMGET', name, 'topic', 'lease', 'error', 'reason', 'options')
end
local FIRST_PAGE, LAST_PAGE = 16, 128
local topic, whole = ARGV[1], ARGV[4] == 'all'
local jobs_left, entries_left, preview = tonumber(ARGV[2]), tonumber(ARGV[3]), whole and 2147483647 or tonumber(ARGV[4])
local bytes_left = 512 * 1024
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local MAX_BODY, MAX_TEXT = whole and preview or 1024 * 1024, whole and preview or 1024
local function body_of(name)
  local size = preview > 0 and redis.pcall('HSTRLEN', name, 'body')
  if type(size) ~= 'number' then return '', -1 end
  if size == 0 or size > MAX_BODY then return '', size end
  bytes_left = bytes_left - size
  local body = redis.pcall('HGET', name, 'body')
  return type(body) == 'string' and string.sub(body, 1, preview) or '', size
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME end
  local most, ttr, lifetime = string.match(text, '^(%d+) (%d+) (%d+)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local A_JOB = preview > 0 and 3 or 0
local function browse(read, names, find)
  local reply, looked, page, ended = {0, {}}, 0, FIRST_PAGE, false
  while jobs_left > 0 and entries_left > 0 and bytes_left > 0 and not ended do
    local ids, places = read(looked, math.min(page, entries_left))
    ended, page = #ids == 0, math.min(2 * page, LAST_PAGE)
    for i, id in ipairs(ids) do
      local at, name = places[i], names .. id
      local job = find(name, at, id)
      if job and unreadable(job) then return job end
      if job and job[1] and (topic == '' or job[1] == topic) then
        local body, size = body_of(name)
        local most, ttr = read_options(job[5])
        reply[#reply + 1] = {id, at, job[1], body, size, (read_lease(job[2])),
          string.sub(job[3] or '', 1, MAX_TEXT), string.sub(job[4] or '', 1, MAX_TEXT), most, ttr}
        jobs_left, entries_left = jobs_left - 1, entries_left - A_JOB
      end
      looked, entries_left, bytes_left = looked + 1, entries_left - 1, bytes_left - #id
      reply[2] = {at, id}
      if jobs_left == 0 or entries_left <= 0 or bytes_left <= 0 then break end
    end
  end
  reply[1] = looked
  if ended then reply[2] = {} end
  return reply
end
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
local list, oldest_first = KEYS[2], ARGV[7] == 'oldest'
local stale_too = ARGV[8] == 'stale'

-- How many entries are to be passed over, from the side that is first.
local function passed_over()
  if ARGV[5] == '' then return 0 end
  -- Byte by byte, nothing comes between an ID and the same with a zero byte.
  if oldest_first then return entries_before(list, ARGV[5], ARGV[6] .. '\0') end
  return redis.call('ZCARD', list) - entries_before(list, ARGV[5], ARGV[6])
end
local first = passed_over()

local function read(skip, count)
  local range = oldest_first and 'ZRANGE' or 'ZREVRANGE'
  local entries = redis.call(range, list, first + skip, first + skip + count - 1, 'WITHSCORES')
  local ids, scores = {}, {}
  for i = 1, #entries, 2 do ids[#ids + 1], scores[#scores + 1] = entries[i], entries[i + 1] end
  return ids, scores
end

local function letter_of(name)
  local letter = job_of(name)
  if stale_too and not unreadable(letter) and not letter[1] then return {''} end
  return letter
end

return browse(read, dead_letters, letter_of)
