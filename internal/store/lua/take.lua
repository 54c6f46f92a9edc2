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

-- The jobs without those whose ID was there before.
local function without_duplicates(jobs)
  local seen, once = {}, {}
  for k = 1, #jobs, 3 do
    if not seen[jobs[k]] then
      seen[jobs[k]] = true
      for field = k, k + 2 do once[#once + 1] = jobs[field] end
    end
  end
  return once
end

-- Takes the last entries of a queue, which are next. Returns how many there
-- were, and the jobs among them; or an error reply.
local function take(queue, topic, count)
  local ids = redis.pcall('LRANGE', queue, -count, -1)
  if ids.err then
    err = not_a_list(queue) or ids
    return 0
  end
  if #ids == 0 then return 0 end

  -- Everything is read before the entries leave the queue: an error after that
  -- would lose them.
  local call, prefix = redis.pcall, buckets
  local waits = call('ZMSCORE', pool, unpack(ids))
  if refused(waits) then return waits end
  local jobs, names, gone, strays = {}, {}, {}, {}
  local n = 0 -- jobs
  for i = #ids, 1, -1 do
    local id = ids[i]
    local name = prefix .. id
    local job = call('HMGET', name, 'topic', 'body')
    local owner = job[1]
    if owner == topic and not waits[i] then
      local k = 3 * n
      jobs[k + 1], jobs[k + 2], jobs[k + 3] = id, job[2] or '', redis.call('PTTL', name)
      n = n + 1
      names[n] = name
    elseif not owner then
      if job.err and refused(job) then return job end
      gone[#gone + 1] = id
    elseif not waits[i] then
      strays[#strays + 1] = {id, owner}
    end
  end
  local forbidden = not_permitted('DEL', buckets .. ids[1])
  if forbidden then return forbidden end

  redis.call('RPOP', queue, #ids)
  for _, id in ipairs(gone) do ghosts[#ghosts + 1] = id end
  for _, stray in ipairs(strays) do
    local passed = redis.pcall('LPUSH', queues .. stray[2], stray[1])
    if type(passed) == 'table' then redis.pcall('ZADD', pool, 0, stray[1]) end
  end
  if n > 0 and redis.call('DEL', unpack(names)) < n then jobs = without_duplicates(jobs) end
  return #ids, jobs
end

for i = 2, #KEYS do
  local taken = {}
  while wanted > 0 and entries_left > 0 do
    local count, jobs = take(KEYS[i], ARGV[i + 2], math.min(wanted, entries_left))
    if type(count) == 'table' then
      if #taken == 0 and #reply == 2 then return count end
      wanted = 0
    elseif count == 0 then
      break
    else
      entries_left = entries_left - count
      wanted = wanted - #jobs / 3
      if #taken == 0 then
        taken = jobs
      else
        for _, field in ipairs(jobs) do taken[#taken + 1] = field end
      end
    end
  end
  if #taken > 0 then reply[#reply + 1], reply[#reply + 2] = i - 1, taken end
end
if wanted > 0 and entries_left == 0 then reply[1] = 1 end
if err and #reply == 2 and reply[1] == 0 then return err end
return reply
