-- adopt: stores a batch of jobs that are in transit from another partition. Each batch is stored once, and none before an earlier one.
--
-- KEYS[1] job pool
-- ARGV[1] the other partition's prefix   ARGV[2] the batch's serial number; 0, without jobs, checks whether jobs can be stored
-- ARGV[3…] of each entry: kind, ID, number, how long it is kept (ms; negative for ever), how many values follow, and the fields and
--   values of its hash. The kinds and their numbers: w, a job in the pool, its score (Unix s); r, a ready job, its order; d, a dead letter,
--   when it was buried (Unix ms); o, an ID whose push counts once, until when (Unix ms), kept -1, no values; g, a tag with the values of
--   its open group, 0
-- Returns {adopted, superseded, last}: how many jobs and letters it stored; how many it did not, because the ID has a later one; and the
-- serial number of the last batch that was adopted from that partition.
-- Errors: WRONGTYPE of the pool, NOPERM, READONLY, and OOM without jobs. Nothing has changed then. Jobs are stored even at maxmemory: they
-- exist nowhere else.
-- Atomic because a retry must find the whole batch, or nothing of it.
-- Cost: O(log n) of the pool for each entry.
-- include: dead guard lease limit policy pool queue schedule slots time topics cluster
local from, serial = 'from ' .. ARGV[1], tonumber(ARGV[2])
local last = redis.call('HGET', migration, from) or '0'
if serial > 0 and last - serial >= 0 then return {0, 0, last} end
local err = not_writable() or not_permitted('HSET', buckets, 'topic', '') or not_permitted('PEXPIRE', buckets, '1')
  or not_permitted('HSET', migration, 'a', '') or not_permitted('ZREM', pool, '') or not_permitted('HSET', dead_letters, 'topic', '')
  or not_permitted('PTTL', once) or not_permitted('ZADD', dead_lists, '0', '') or not_permitted('EXISTS', buckets) or not_permitted('DEL', dead_letters)
  or elsewhere(buckets)
if err then return err end
if serial == 0 then
  redis.call('HSET', migration, 'room', 1)
  return {redis.call('HDEL', migration, 'room') - 1, 0, last}
end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local CHUNK = 1000 -- unpack fails near 8,000
local adopted, superseded = 0, 0
local first_due = math.huge

local function store(name, ttl, first, last)
  for some = first, last, CHUNK do redis.call('HSET', name, unpack(ARGV, some, math.min(some + CHUNK - 1, last))) end
  if ttl >= 0 then redis.call('PEXPIRE', name, string.format('%d', math.max(ttl, 1))) end
end

-- Converts the last lease in the bucket to this partition's clock.
local function adjust_lease(name, ttl)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local attempts, token, lent = read_lease(text)
  redis.call('HSET', name, 'lease', keep_follower(text, lease_text(attempts, token, lent, ttl)))
end

local function place(kind, id, topic, at)
  local name = topic == SCHEDULE_TOPIC and schedule_name(id)
  if name then redis.call('ZADD', schedules, 0, name) end
  if kind == 'r' and not make_ready(topic, id) then
    redis.call('ZREM', pool, id) -- an entry without a job
    register_use(topic, now / 1000, now / 1000)
    return
  end
  if kind == 'r' then at = score_of(now) end -- the server reports why it can't be ready
  redis.call('ZADD', pool, at, id)
  if is_lease(at) then
    count_reserved({[topic] = 1})
    if (read_limit(topic) or -1) >= 0 then redis.pcall('ZADD', slots .. topic, slot_score(at * 1000000), id) end
  end
  if not name then register_use(topic, now / 1000, tonumber(at)) end
  if tonumber(at) > now_s then first_due = math.min(first_due, tonumber(at)) end
end

-- Whether the ID has no job, or no letter. An older letter is deleted.
local function makes_room(kind, name, id, at)
  if redis.call('EXISTS', name) == 0 then return true end
  local died = kind == 'd' and redis.pcall('HMGET', name, 'died', 'topic')
  if not died or not died[2] or tonumber(died[1] or 0) - at >= 0 then return false end
  redis.call('DEL', name)
  unlist(died[2], id)
  return true
end

local i = 3
while i <= #ARGV do
  local kind, id, at, ttl, first, n = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), i + 5, tonumber(ARGV[i + 4])
  local name = (kind == 'd' and dead_letters or buckets) .. id
  i = first + n
  if kind == 'o' then
    redis.call('ZADD', once, 'GT', at, id)
    keep_once(math.max(tonumber(at) - now, 1))
  elseif kind == 'g' then -- unless there is another one
    if redis.call('EXISTS', groups .. id) == 0 then store(groups .. id, ttl, first, i - 1) end
  elseif not makes_room(kind, name, id, at) then
    superseded = superseded + 1
  else
    adopted = adopted + 1
    store(name, ttl, first, i - 1)
    local topic = redis.call('HGET', name, 'topic')
    if kind == 'd' then
      redis.pcall('ZADD', dead_lists .. topic, at, id)
      redis.pcall('ZADD', dead_topics, 'LT', at, topic)
      register_use(topic, now / 1000, now / 1000)
    else
      adjust_lease(name, ttl)
      place(kind, id, topic, at)
    end
  end
end
-- Last, so that a retry stores the entries that Redis before 7.0 may have refused half-way.
redis.call('HSET', migration, from, ARGV[2])
wake_all()
if first_due < math.huge then
  local ms = math.ceil(first_due * 1000)
  announce(score_of(ms), ms - now)
end
return {adopted, superseded, ARGV[2]}
