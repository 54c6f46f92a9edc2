-- sweep: cleans up some of the known topics. It drops entries without a job from the ends of their ready queues from which jobs are delivered,
-- makes dead letters of jobs that are about to expire there, forgets empty topics, repairs numbers of reserved jobs, and removes IDs whose
-- push no longer counts.
--
-- KEYS[1] job pool   KEYS[2] the known topics   KEYS[3] those with jobs to come   KEYS[4] the numbers of reserved jobs
-- ARGV[1] how many topics at most   ARGV[2] how many entries at most   ARGV[3…4] the position of the last topic, its score and name; '' to
--   begin
-- Returns {more, score, name, forgotten, excluded, buried, topic, ids, topic, ids, …}: 1 if there are more topics or IDs; ARGV[3…4] of the next
-- call; how many topics it forgot; the topics with ready jobs whose limit lets this partition reserve none; {topic, ids, …} of the new
-- dead letters; and the IDs of each queue that have no job: it has expired, was removed, or has no topic.
-- Errors: WRONGTYPE of the pool or the topics, NOPERM. Nothing has changed then.
--
-- It treats an entry as a pop would, see parts/take.lua. An ID of another topic is passed on, unless it is in that topic's queue already: it
-- was pushed again.
-- Atomic because an ID may be pushed, and a topic used, between the check and the change.
-- Cost: O(log n) of the pool and the topics, O(topics + entries); the search for an ID in another queue, O(its length, MAX_WALK at most),
-- counts as entries. A burial, of eleven commands, counts as BURIED entries.
-- include: guard lease limit place queue time topics
local IDLE = 3600         -- s; a topic with nothing is forgotten if it was not used for that long
local STEP = 50           -- entries read at a time behind one without a job
local OVER = 500          -- IDs whose time is over, removed at a time
local MAX_WALK, WALKED = 10000, 50 -- WALKED entries that are walked over cost as much as one that is read
local most, entries_left = tonumber(ARGV[1]), tonumber(ARGV[2])
local pcall = redis.pcall

-- Whether the ID is in the topic's queue, as far as it is searched.
local function is_queued(topic, id)
  for _, queue in ipairs({queues .. topic, parked_queues .. topic}) do
    local length = pcall('LLEN', queue)
    if type(length) == 'number' and length > 0 then
      entries_left = entries_left - math.floor(math.min(length, MAX_WALK) / WALKED)
      if type(pcall('LPOS', queue, id, 'MAXLEN', MAX_WALK)) == 'number' then return true end
    end
  end
  return false
end

-- Redis deletes a job at the end of its lifetime, with its body, so it is buried before: in the last FRACTION of its lifetime, EARLY ms at
-- most. The lifetime of a job without options is unknown, as it may be one of the original's clients. It is buried in its last LATE ms, if a
-- consumer of ours has reserved it or clients of ours push to its topic (is_ours), else it is left to expire. So is one whose burial fails.
local FRACTION, EARLY, LATE, BURIED = 1 / 20, 600000, 120000, 20

-- Makes a dead letter of the topic's job if it is about to expire. Returns whether it did.
local function bury_expiring(id, topic, is_ours)
  local name = buckets .. id
  local ttl = pcall('PTTL', name)
  if type(ttl) ~= 'number' or ttl < 0 or ttl > EARLY then return false end
  local job = pcall('HMGET', name, 'options', 'lease')
  if job.err or not (is_ours or job[1] or job[2]) then return false end
  local reason, early = 'expired: nobody took it', LATE
  if job[1] then
    local _, _, lifetime = read_options(job[1])
    local days = lifetime / 86400000
    reason = reason .. ' within ' .. (days >= 1 and string.format('%.4gd', days) or string.format('%.4gm', days * 1440))
    early = lifetime * FRACTION
  end
  if ttl > early then return false end
  -- include: dead: bury; follow: follow_up
  if pcall('PERSIST', name) ~= 1 then return false end -- the first write; after it, Redis refuses nothing at maxmemory
  local followed = has_follower(job[2])
  if bury(id, name, topic, reason, '', followed) then
    pcall('PEXPIRE', name, ttl)
    return false
  end
  if followed then follow_up(id, dead_letters .. id) end
  entries_left = entries_left - BURIED
  return true
end

local some_paused = pcall('EXISTS', pauses) == 1

-- Drops entries without a job from the end of the topic's queue or, if it is paused, of its parked jobs, and adds IDs that have no job to
-- gone. Jobs that are about to expire become dead letters, and are added to buried. Returns whether that is done; or an error reply.
local function sweep(topic, is_ours, gone, buried)
  local queue, count = queues .. topic, 1
  if some_paused and pcall('EXISTS', queue) == 0 then queue = parked_queues .. topic end
  while entries_left > 0 do
    local ids = pcall('LRANGE', queue, -count, -1)
    if ids.err or #ids == 0 then return unreadable(ids) and ids or true end
    local waits = redis.call('ZMSCORE', pool, unpack(ids))
    local found, misrouted, used, more = {}, {}, 0, #ids == count
    for i = #ids, 1, -1 do
      local id, owner = ids[i], not waits[i] and pcall('HGET', buckets .. ids[i], 'topic')
      local expires = owner == topic and bury_expiring(id, topic, is_ours)
      if owner == topic and not expires or unreadable(owner) then
        more = false
        break
      end
      if expires then
        buried[#buried + 1] = id
      elseif waits[i] then
        -- it will be ready again
      elseif type(owner) ~= 'string' then
        found[#found + 1] = id
      elseif not is_queued(owner, id) then
        misrouted[#misrouted + 1] = {id, owner}
      end
      used, entries_left = used + 1, entries_left - 1
      if entries_left <= 0 then
        more = true
        break
      end
    end
    local popped = used > 0 and pcall('RPOP', queue, used)
    if type(popped) == 'table' and popped.err then return popped end
    for _, id in ipairs(found) do gone[#gone + 1] = id end
    for _, entry in ipairs(misrouted) do pass_on(entry[1], entry[2]) end
    if not more then return true end
    count = STEP
  end
  return false
end

-- Whether the topic has anything. A key that can't be read counts.
local function has_something(topic, count, limit, due)
  if count > 0 or limit or due and due - now_s > 0 then return true end
  return pcall('EXISTS', queues .. topic, parked_queues .. topic, dead_lists .. topic) ~= 0
    or some_paused and pcall('HGET', pauses, topic) ~= false
end

-- The numbers of reserved jobs, none below 0 or above what the pool can have: leases end within MAX_LEASE. Those of topics with a limit are
-- raised.
local function reserved_of(names, has_limit)
  local counts = pcall('HMGET', reserved_counts, unpack(names))
  if counts.err or has_limit.err then
    for k = 1, #names do counts[k] = 1 end
    return counts
  end
  local leases = redis.call('ZCOUNT', pool, '-inf', string.format('%d', now_s + MAX_LEASE / 1000 + 1))
  for k, name in ipairs(names) do
    local kept = tonumber(counts[k] or 0) or 0
    local count, raised = lowered(kept)
    local right = math.min(math.max(count, 0), leases)
    if not has_limit.err then raised = has_limit[k] and raise_for(parse_limit(name, has_limit[k]) or -1) or 0 end
    local keep = raised + right
    if counts[k] and keep == 0 then
      pcall('HDEL', reserved_counts, name)
    elseif keep ~= kept then
      pcall('HSET', reserved_counts, name, string.format('%.0f', keep))
    end
    counts[k] = right
  end
  return counts
end

local first = page_after(known_topics, ARGV[3], ARGV[4])
local page = redis.call('ZRANGE', known_topics, first, first + most - 1, 'WITHSCORES')
local err = not_permitted('RPOP', queues, '1') or not_permitted('LRANGE', queues, '0', '0') or not_permitted('ZREM', known_topics, '')
  or not_permitted('ZMSCORE', pool, '') or not_permitted('ZCOUNT', pool, '0', '0') or not_writable()
if err then return err end
local past = redis.call('ZRANGEBYSCORE', topics_due, '-inf', string.format('%d', now_s), 'LIMIT', 0, most)
if #past > 0 then redis.call('ZREM', topics_due, unpack(past)) end
local over = pcall('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
if #over > 0 then pcall('ZREM', once, unpack(over)) end

local reply = {(#page == 2 * most or #over == OVER) and 1 or 0, ARGV[3], ARGV[4], 0, {}, {}}
local names = {}
for i = 1, #page, 2 do names[#names + 1] = page[i] end
local has_limit = #names > 0 and pcall('HMGET', limits, unpack(names))
local counts = #names > 0 and reserved_of(names, has_limit)
local dues = #names > 0 and redis.call('ZMSCORE', topics_due, unpack(names))
local pushed = #names > 0 and pcall('ZMSCORE', pushed_topics, unpack(names)) -- when clients of ours registered; an error has no topic
for k, topic in ipairs(names) do
  local score, gone, buried = page[2 * k], {}, {}
  local done = sweep(topic, pushed[k], gone, buried)
  if #buried > 0 then table.insert(reply[6], topic) table.insert(reply[6], buried) end
  if #gone > 0 then reply[#reply + 1], reply[#reply + 2] = topic, gone end
  if type(done) == 'table' then
    if k == 1 and #reply == 6 and #reply[6] == 0 then return done end
    done = true
  end
  if not done then
    reply[1] = 1
    break
  end
  reply[2], reply[3] = score, topic
  local excludes = has_limit[k] and string.find(has_limit[k], '^0 ')
  if excludes and pcall('EXISTS', queues .. topic, parked_queues .. topic) ~= 0 then table.insert(reply[5], topic) end
  if now_s - score > IDLE then
    if has_something(topic, counts[k], has_limit[k], dues[k]) then
      pcall('ZADD', known_topics, 'XX', used_at(now_s), topic)
    else
      redis.call('ZREM', known_topics, topic)
      pcall('ZREM', pushed_topics, topic)
      reply[4] = reply[4] + 1
    end
  end
end
return reply
