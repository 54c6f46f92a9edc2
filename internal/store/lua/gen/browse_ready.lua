-- browse_ready: reads some ready jobs of a topic, the next to be delivered first; of a paused topic, its parked jobs.
--
-- KEYS[1] job pool   KEYS[2] the topic's ready queue
-- ARGV[1…6] as browse (parts/browse.lua); the position is how many entries are delivered before, and an ID
--
-- Returns what browse does, with these positions.
-- Errors: WRONGTYPE, NOPERM.
--
-- The queue moves on between two pages. So the entry at the position is searched for among the first MAX_WALK: the page begins
-- behind it, or at the front if it has left, as those before it have. Deeper in the queue the position is taken as it is.
-- Atomic so that entries and content belong together.
-- Cost: O(entries before the page), and O(entries read).
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local parked_queues = prefix .. 'paused_queue:'
local buckets = prefix .. 'job_bucket:'
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
local queue = redis.call('EXISTS', parked_queues .. ARGV[1]) == 1 and parked_queues .. ARGV[1] or KEYS[2]
local MAX_WALK, SLACK = 10000, 1000 -- released jobs come back to the front

local function first_entry()
  if ARGV[5] == '' then return 0 end
  local was = tonumber(ARGV[5])
  if was >= MAX_WALK then return was + 1 end
  local found = redis.call('LPOS', queue, ARGV[6], 'RANK', -1, 'COUNT', 0, 'MAXLEN', was + 1 + SLACK)
  local length, now = redis.call('LLEN', queue), -1
  for _, from_left in ipairs(found) do
    local at = length - 1 - from_left
    -- The ID may stand there twice. It is the last one up to where it was: else pages would be
    -- left out, or come again for ever.
    if now < 0 or at <= was then now = at end
  end
  return now + 1
end
local first = first_entry()

local function read(skip, count)
  local last = first + skip
  local entries = redis.call('LRANGE', queue, -last - count, -last - 1)
  local ids, places = {}, {}
  for i = #entries, 1, -1 do
    ids[#ids + 1], places[#places + 1] = entries[i], string.format('%d', last + #ids)
  end
  return ids, places
end

return browse(read, buckets, function(name, _, id)
  return not redis.call('ZSCORE', pool, id) and job_of(name)
end)
