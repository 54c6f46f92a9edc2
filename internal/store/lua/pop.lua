-- pop: takes the next ready jobs of some topics. They leave Redis; a job's follower takes its place.
--
-- KEYS, ARGV[1…4] and the topics at the end: see parts/take.lua
-- ARGV[5…] how many jobs of each of KEYS[2…] at most; then the topics
-- Returns {more, stale, registered, queue, jobs, left, queue, jobs, left, …}: 1 if it stopped early, after 1,000 entries or about 1 MiB, and
-- there may be more; the IDs that it met whose job is gone (expired, removed, or taken by another entry); 1 if the waiter is registered
-- wherever it should be; and of each topic with jobs its position, from 1 on, {id, body, id, body, …}, where a body of a job with headers is
-- {body, headers}, and how many entries its queue still has, -1 if no waiter needs it.
-- Errors: WRONGTYPE of a queue, if no queue has a job; NOPERM; READONLY, also if no queue has a job. Nothing has changed then.
-- Atomic because a cut between the entry and the bucket would lose the job.
-- Cost: O(entries read), at most 50 more than it drops or takes.
-- include: take
local followers -- the IDs of taken jobs that have one

-- Buckets first: if they may not be deleted, the entries are still there. The bucket of a job with a follower loses only its topic, so that
-- no consumer takes it again.
local function delete(jobs, names, n, _, followed)
  if n == 0 then return nil, jobs end
  if followed then
    -- include: follow: not_followable
    local k = next(followed)
    local err = not_followable(jobs[2 * k - 1], names[k])
    if err then return err end
    local others = {}
    followers = followers or {}
    for k = 1, n do
      if not followed[k] then
        others[#others + 1] = names[k]
      elseif redis.call('HDEL', names[k], 'topic') == 1 then
        followers[#followers + 1] = jobs[2 * k - 1]
      end
    end
    names = others
  end
  local deleted = #names > 0 and pcall('DEL', unpack(names)) or 0
  if type(deleted) == 'table' then return deleted end
  if deleted == n then return nil, jobs end
  local seen, once = {}, {} -- an ID was there twice, or has a follower
  for k = 1, #jobs, 2 do
    if not seen[jobs[k]] then
      seen[jobs[k]] = true
      once[#once + 1], once[#once + 2] = jobs[k], jobs[k + 1]
    end
  end
  return nil, once
end

local reply = take_all(nil, nil, delete, 5)
if not followers then return reply end

-- include: follow: follow_up; keys: buckets
for _, id in ipairs(followers) do follow_up(id, buckets .. id) end
return reply
