-- pop: takes the next ready jobs of some topics; they are gone from Redis then.
--
-- KEYS[1] job pool   KEYS[2…] ready queues, in the order in which they are tried
-- ARGV[1] what the names of buckets begin with   ARGV[2] what those of ready queues begin with
-- ARGV[3] what the names of the channels begin with on which consumers hear of ready jobs
-- ARGV[4] how many jobs are wanted, 1 to 1,000   ARGV[5…] the topics of KEYS[2…]
--
-- Returns {more, stale, queue, jobs, queue, jobs, …}: more is 1 when the call stopped early,
-- after 1,000 entries or about 1 MiB, and there may be more; stale are the IDs met whose job
-- is gone (its lifetime ended, it was removed, or taken by another entry); queue is the place
-- of a topic among the topics, from 1 on, and jobs are {id, body, id, body, …} of it.
-- Errors: WRONGTYPE of a queue, if no queue has a job; a permission that is missing, before
-- anything is written.
--
-- An entry of a queue is a hint; the bucket and the pool decide:
--   no usable bucket            dropped, stale
--   the ID waits in the pool    dropped: it was postponed, and will come back
--   bucket of another topic     passed on to that topic's queue, or, if that is broken,
--                               to the pool, for the server to name it
--   a job that was just taken   dropped: the same ID stood there twice
-- Atomic because a cut between the entry and the bucket would lose the job.
-- Cost: O(entries read), at most 50 more than are dropped or taken.
local pool, buckets, queues, channels = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local wanted, entries_left, bytes_left = tonumber(ARGV[4]), 1000, 1024 * 1024
-- How many entries are read at a time behind one that brought no job.
local STEP = 50

local pcall = redis.pcall
local stale, found_stale, some_bytes, queue_error = {}, {}, false, nil

-- The jobs without those whose ID was there before.
local function without_duplicates(jobs)
  local seen, once = {}, {}
  for k = 1, #jobs, 2 do
    if not seen[jobs[k]] then
      seen[jobs[k]] = true
      once[#once + 1], once[#once + 2] = jobs[k], jobs[k + 1]
    end
  end
  return once
end

-- Passes an ID on to the queue that it belongs to, or else to the pool.
local function pass_on(id, topic)
  local length = pcall('LPUSH', queues .. topic, id)
  if type(length) == 'number' then
    tell_ready(channels .. topic, length)
  else
    pcall('ZADD', pool, 0, id)
  end
end

-- Takes the last entries of a queue, which are next, count at most. Returns how many
-- entries were dropped or taken, and the jobs among them; or an error reply.
local function pop(queue, topic, count)
  local ids = pcall('LRANGE', queue, -count, -1)
  if ids.err then
    queue_error = not_a_list(queue) or ids
    return 0
  end
  if #ids == 0 then return 0 end

  -- Everything is read, and asked for, before the first write: an error after that would
  -- lose entries.
  local waits = pcall('ZMSCORE', pool, unpack(ids))
  if unreadable(waits) then return waits end
  local jobs, names, strays = {}, {}, nil
  local n, first = 0, #ids + 1 -- of the entries that are dropped or taken
  for i = #ids, 1, -1 do
    if n == wanted or bytes_left <= 0 then break end
    local id = ids[i]
    local name = buckets .. id
    local job = pcall('HMGET', name, 'topic', 'body')
    local owner = job[1]
    if owner == topic and not waits[i] then
      local body = job[2] or ''
      local size = #id + #body
      if size > bytes_left and some_bytes then -- the first job is taken however large it is
        bytes_left = 0
        break
      end
      bytes_left, some_bytes = bytes_left - size, true
      jobs[2 * n + 1], jobs[2 * n + 2] = id, body
      n = n + 1
      names[n] = name
    elseif not owner then
      if job.err and unreadable(job) then return job end
      bytes_left, some_bytes = bytes_left - #id, true
      found_stale[#found_stale + 1] = id
    elseif not waits[i] then
      strays = strays or {}
      strays[#strays + 1] = {id, owner}
    end
    first = i
  end
  local used = #ids + 1 - first
  if used == 0 then return 0 end
  local denied = pcall('RPOP', queue, 0) -- takes nothing
  if type(denied) == 'table' and denied.err then return denied end
  denied = strays and not_writable(pool)
  if denied then return denied end
  if n > 0 then
    -- Buckets first: if they may not be deleted, the entries are still there.
    local deleted = pcall('DEL', unpack(names))
    if type(deleted) == 'table' then return deleted end
    if deleted < n then jobs = without_duplicates(jobs) end
  end
  redis.call('RPOP', queue, used)
  for i = #stale + 1, #found_stale do stale[i] = found_stale[i] end
  if strays then
    for _, stray in ipairs(strays) do pass_on(stray[1], stray[2]) end
  end
  return used, jobs
end

local reply = {0, stale}
for i = 2, #KEYS do
  local popped = {}
  local step = 1
  while wanted > 0 and entries_left > 0 and bytes_left > 0 do
    local count, jobs = pop(KEYS[i], ARGV[i + 3], math.min(math.max(wanted, step), entries_left))
    if type(count) == 'table' then
      if #popped == 0 and #reply == 2 and #stale == 0 then return count end
      -- What came before it must be told; the next call meets the error again.
      wanted, reply[1] = 0, 1
    elseif count == 0 then
      break
    else
      entries_left, step = entries_left - count, STEP
      wanted = wanted - #jobs / 2
      if #popped == 0 then
        popped = jobs
      else
        for _, field in ipairs(jobs) do popped[#popped + 1] = field end
      end
    end
  end
  if #popped > 0 then reply[#reply + 1], reply[#reply + 2] = i - 1, popped end
end
if wanted > 0 and (entries_left <= 0 or bytes_left <= 0) then reply[1] = 1 end
if queue_error and #reply == 2 and reply[1] == 0 then return queue_error end
return reply
