-- take: the next ready jobs of some queues; they are gone from Redis then.
--
-- KEYS[1] job pool   KEYS[2…] ready queues, in the order in which they are tried
-- ARGV[1] what the names of buckets begin with   ARGV[2] what the names of ready queues begin with
-- ARGV[3] how many jobs are wanted, 1 to 1,000   ARGV[4…] the topics of KEYS[2…]
--
-- Returns {more, ghosts, queue, jobs, queue, jobs, …}: more is 1 when the call stopped after
-- 1,000 entries with fewer jobs than wanted, and should be repeated; ghosts are the IDs met
-- whose job is gone (its lifetime ended, or it was removed); queue is the place of a topic
-- among the topics, from 1 on, and jobs are {id, body, ttl, id, body, ttl, …} of it, where
-- ttl is the lifetime that was left in ms, -1 if endless.
-- Errors: WRONGTYPE of a queue, if no queue has a job; a permission that is
-- missing, before an entry is lost by it.
--
-- An entry of a queue is a hint; the bucket and the pool decide:
--   no usable bucket            dropped, a ghost
--   the ID waits in the pool    dropped: it was postponed, and will come back
--   bucket of another topic     passed on to that topic's queue, or, if that is broken,
--                               to the pool, for the server to name it
--   a job that was just taken   dropped: the same ID stood there twice
-- Atomic because a cut between the entry and the bucket would lose the job.
-- Cost: O(entries taken or dropped).
local pool, buckets, queues = KEYS[1], ARGV[1], ARGV[2]
local wanted, entries_left = tonumber(ARGV[3]), 1000
local ghosts, err = {}, nil
local reply = {0, ghosts}

-- Takes the last entries of a queue, which are next, and reports how many there
-- were, or an error reply. The jobs among them are appended to taken.
local function take(queue, topic, count, taken)
  local ids = redis.pcall('LRANGE', queue, -count, -1)
  if ids.err then
    err = not_a_list(queue) or ids
    return 0
  end
  if #ids == 0 then return 0 end

  -- Everything is read before the entries leave the queue: an error after that
  -- would lose them.
  local waits = redis.pcall('ZMSCORE', pool, unpack(ids))
  if refused(waits) then return waits end
  local names, jobs, ttls = {}, {}, {}
  for i = 1, #ids do
    local name = buckets .. ids[i]
    local job = redis.pcall('HMGET', name, 'topic', 'body')
    if job.err and refused(job) then return job end
    names[i], jobs[i] = name, job
    ttls[i] = redis.call('PTTL', name)
  end
  local forbidden = not_permitted('DEL', names[1])
  if forbidden then return forbidden end

  redis.call('RPOP', queue, #ids)
  local doomed, good = {}, {} -- buckets, and the places of their IDs
  for i = #ids, 1, -1 do
    local job = jobs[i]
    if job.err or not job[1] then
      ghosts[#ghosts + 1] = ids[i]
    elseif waits[i] then
      -- dropped
    elseif job[1] ~= topic then
      local passed = redis.pcall('LPUSH', queues .. job[1], ids[i])
      if type(passed) == 'table' then redis.pcall('ZADD', pool, 0, ids[i]) end
    else
      local n = #good + 1
      doomed[n], good[n] = names[i], i
    end
  end
  if #good == 0 then return #ids end
  local twice = redis.call('DEL', unpack(doomed)) < #good
  local seen = twice and {}
  local n = #taken
  for _, i in ipairs(good) do
    local id = ids[i]
    if not twice or not seen[id] then
      taken[n + 1], taken[n + 2], taken[n + 3] = id, jobs[i][2] or '', ttls[i]
      n = n + 3
      if twice then seen[id] = true end
    end
  end
  return #ids
end

for i = 2, #KEYS do
  local taken = {}
  while wanted > #taken / 3 and entries_left > 0 do
    local count = take(KEYS[i], ARGV[i + 2], math.min(wanted - #taken / 3, entries_left), taken)
    if type(count) == 'table' then
      if #taken == 0 and #reply == 2 then return count end
      wanted = 0
    elseif count == 0 then
      break
    else
      entries_left = entries_left - count
    end
  end
  if #taken > 0 then
    wanted = wanted - #taken / 3
    reply[#reply + 1], reply[#reply + 2] = i - 1, taken
  end
end
if wanted > 0 and entries_left == 0 then reply[1] = 1 end
if err and #reply == 2 and reply[1] == 0 then return err end
return reply
