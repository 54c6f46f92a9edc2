-- browse: reads jobs page by page: waiting or reserved ones, the next to fall due first; a topic's ready jobs, or its parked ones if it is
-- paused, the next to be delivered first; or a topic's dead letters.
local DEAD = 'dead'
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_letters = prefix .. 'dead_letter:'
local buckets = prefix .. 'job_bucket:'
local READY = 'ready'
local parked_queues = prefix .. 'paused_queue:'
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
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local RESERVED = 'reserved'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local topic, after, after_id, state = ARGV[1], ARGV[5], ARGV[6], ARGV[7]
local whole = ARGV[4] == 'all'
local jobs_left, entries_left, preview = tonumber(ARGV[2]), tonumber(ARGV[3]), whole and 2147483647 or tonumber(ARGV[4])
local bytes_left = 512 * 1024
local MAX_BODY, MAX_TEXT = whole and preview or 1024 * 1024, whole and preview or 1024
local A_JOB = preview > 0 and 3 or 0 -- what a returned job costs, in entries
local FIRST_PAGE, LAST_PAGE = 16, 128 -- entries read at a time, whose IDs may be large
local MAX_WALK, SLACK = 10000, 1000 -- released jobs become the next ones of the queue

local is_dead = state == DEAD or state == 'oldest'
local names = is_dead and dead_letters or buckets
local first, read -- how many entries to skip; a function that reads IDs, and scores or positions

if state == READY then
  local parked = parked_queues .. topic
  local queue = redis.call('EXISTS', parked) == 1 and parked or KEYS[2]
  first = after == '' and 0 or tonumber(after) + 1
  if first > 0 and first <= MAX_WALK then
    local found = redis.call('LPOS', queue, after_id, 'RANK', -1, 'COUNT', 0, 'MAXLEN', first + SLACK)
    local length, before = redis.call('LLEN', queue), first
    first = 0
    -- If the ID is there twice, the last one up to its position counts. Otherwise pages would be skipped, or repeat for ever.
    for _, from_left in ipairs(found) do
      local behind = length - from_left
      if first == 0 or behind <= before then first = behind end
    end
  end
  read = function(skip, count)
    local last = first + skip
    local entries = redis.call('LRANGE', queue, -last - count, -last - 1)
    local ids, places = {}, {}
    for i = #entries, 1, -1 do
      ids[#ids + 1], places[#places + 1] = entries[i], string.format('%d', last + #ids)
    end
    return ids, places
  end
else
  local set = is_dead and KEYS[2] or pool
  if state == DEAD and after ~= '' then
    first = redis.call('ZCARD', set) - entries_before(set, after, after_id)
  else
    first = page_after(set, after, after_id)
  end
  read = function(skip, count)
    local from, to = first + skip, first + skip + count - 1
    local entries
    if state == DEAD then
      entries = redis.call('ZREVRANGE', set, from, to, 'WITHSCORES')
    else
      entries = redis.call('ZRANGE', set, from, to, 'WITHSCORES')
    end
    local ids, scores = {}, {}
    for i = 1, #entries, 2 do ids[#ids + 1], scores[#scores + 1] = entries[i], entries[i + 1] end
    return ids, scores
  end
end

-- The job or letter of an entry, if it is in the wanted state.
local function find(name, at, id)
  local leased = not is_dead and state ~= READY and is_lease(at)
  if state == RESERVED and not leased or state == READY and redis.call('ZSCORE', pool, id) then return nil end
  local job = redis.pcall('HMGET', name, 'topic', 'lease', 'error', 'reason', 'options')
  if leased and not job.err and (job[2] ~= false) ~= (state == RESERVED) then return nil end
  if ARGV[8] == 'stale' and not unreadable(job) and not job[1] then return {''} end
  return job
end

-- The beginning of the body, and its size in bytes. Redis can't read a part of a field: a body above MAX_BODY is not read.
local function body_of(name)
  local size = preview > 0 and redis.pcall('HSTRLEN', name, 'body')
  if type(size) ~= 'number' then return '', -1 end
  if size == 0 or size > MAX_BODY then return '', size end
  bytes_left = bytes_left - size
  local body = redis.pcall('HGET', name, 'body')
  return type(body) == 'string' and string.sub(body, 1, preview) or '', size
end

local reply, entries_read, page, ended = {0, {}}, 0, FIRST_PAGE, false
while jobs_left > 0 and entries_left > 0 and bytes_left > 0 and not ended do
  local ids, places = read(entries_read, math.min(page, entries_left))
  ended, page = #ids == 0, math.min(2 * page, LAST_PAGE)
  for i, id in ipairs(ids) do
    local at, name = places[i], names .. id
    local job = find(name, at, id)
    if job and unreadable(job) then return job end
    if job and job[1] and (topic == '' or job[1] == topic) then
      local body, size = body_of(name)
      local most, ttr, _, headers = read_options(job[5])
      reply[#reply + 1] = {id, at, job[1], body, size, (read_lease(job[2])),
        string.sub(job[3] or '', 1, MAX_TEXT), string.sub(job[4] or '', 1, MAX_TEXT), most, ttr, headers}
      jobs_left, entries_left, bytes_left = jobs_left - 1, entries_left - A_JOB, bytes_left - #headers
    end
    entries_read, entries_left, bytes_left = entries_read + 1, entries_left - 1, bytes_left - #id
    reply[2] = {at, id}
    if jobs_left == 0 or entries_left <= 0 or bytes_left <= 0 then break end
  end
end
reply[1] = entries_read
if ended then reply[2] = {} end
return reply
