-- require: take
-- pop: takes the next ready jobs of some topics; they are gone from Redis then.
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
local function read(name) return pcall('HMGET', name, 'topic', 'body') end

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

-- Buckets first: if they may not be deleted, the entries are still there.
local function delete(jobs, names, n)
  if n == 0 then return nil, jobs end
  local deleted = pcall('DEL', unpack(names))
  if type(deleted) == 'table' then return deleted end
  if deleted < n then jobs = without_duplicates(jobs) end
  return nil, jobs
end

return take_all(read, nil, delete, 5)
