-- require: take lease
-- pop: takes the next ready jobs of some topics; they are gone from Redis then, and their followers take their places.
--
-- KEYS, ARGV[1…4] and the topics at the end: see take.
-- ARGV[5…] how many jobs of each of KEYS[2…] at most; then the topics
--
-- Returns {more, stale, entered, queue, jobs, left, queue, jobs, left, …}: more is 1 when the call stopped early,
-- after 1,000 entries or about 1 MiB, and there may be more; stale are the IDs met whose job
-- is gone (its lifetime ended, it was removed, or taken by another entry); queue is the place
-- of a topic among the topics, from 1 on, jobs are {id, body, id, body, …} of it, and left is how many
-- entries its queue still has, -1 if that is of interest to nobody; entered is 1 if the waiter was entered wherever it was to be.
-- Errors: WRONGTYPE of a queue, if no queue has a job; a permission that is missing, before
-- anything is written; a server that takes no writes, also if no queue has a job.
--
-- Atomic because a cut between the entry and the bucket would lose the job.
-- Cost: O(entries read), at most 50 more than are dropped or taken.
local followed, followers -- buckets of jobs that have a follower; the IDs of those that were taken

local function read(name)
  if followed and followed[name] == false then return {} end -- this call has taken it
  local job = pcall('HMGET', name, 'topic', 'body', 'lease')
  if is_followed(job[3]) then
    followed = followed or {}
    followed[name] = true
  end
  return job
end

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

-- The buckets that nobody follows. The IDs of the others are among followers then.
local function set_followers_apart(jobs, names, n)
  local others = {}
  followers = followers or {}
  for k = 1, n do
    if followed[names[k]] == nil then
      others[#others + 1] = names[k]
    elseif followed[names[k]] then
      followed[names[k]] = false
      followers[#followers + 1] = jobs[2 * k - 1]
    end
  end
  return others
end

-- Buckets first: if they may not be deleted, the entries are still there.
local function delete(jobs, names, n)
  if n == 0 then return nil, jobs end
  if followed then
    local err = not_permitted('HSET', names[1], 'topic', '') or not_permitted('HDEL', names[1], 'next') or not_permitted('PTTL', names[1])
    if err then return err end
    names = set_followers_apart(jobs, names, n)
  end
  local deleted = #names > 0 and pcall('DEL', unpack(names)) or 0
  if type(deleted) == 'table' then return deleted end
  if deleted < n then jobs = without_duplicates(jobs) end
  return nil, jobs
end

local reply = take_all(read, nil, delete, 5)
if not followers then return reply end

-- require: follow
for _, id in ipairs(followers) do follow_up(id, buckets .. id) end
return reply
