-- take: the first ready job of the first queue that has one; the job is gone from Redis then.
--
-- KEYS[1] job pool   KEYS[2…] ready queues, in the order in which they are tried
-- ARGV[1] what the names of buckets begin with   ARGV[2] what the names of ready queues begin with
-- ARGV[3…] the topics of KEYS[2…]
--
-- Returns {more, ghosts, id, topic, body, ttl}: more is 1 when the call stopped
-- after 1,000 entries without a job, and should be repeated; ghosts are the IDs met whose
-- job is gone (its lifetime ended, or it was removed); ttl is the lifetime left
-- in ms, -1 if endless. id, topic, body and ttl are left out when there is no job.
-- Errors: WRONGTYPE of a queue, if none of the others has a job; a permission that is
-- missing, before an entry is lost by it.
--
-- An entry of a queue is a hint; the bucket and the pool decide:
--   no usable bucket            dropped, a ghost
--   the ID waits in the pool    dropped: it was postponed, and will come back
--   bucket of another topic     passed on to that topic's queue, or, if that is broken,
--                               to the pool, for the server to name it
-- Atomic because a cut between the entry and the bucket would lose the job.
-- Cost: O(1) and O(entries dropped).
local pool = KEYS[1]
local entries_left = 1000
local ghosts, err = {}, nil

for i = 2, #KEYS do
  local topic = ARGV[i + 1]
  while true do
    local id = redis.pcall('LINDEX', KEYS[i], -1)
    if type(id) == 'table' then err = not_a_list(KEYS[i]) or id end
    if type(id) ~= 'string' then break end
    if entries_left == 0 then return {1, ghosts} end
    entries_left = entries_left - 1

    -- Everything is read before the entry leaves the queue: an error
    -- after that would lose it.
    local bucket = ARGV[1] .. id
    local job = redis.pcall('HMGET', bucket, 'topic', 'body')
    if refused(job) then return job end
    local waits = redis.pcall('ZSCORE', pool, id)
    if refused(waits) then return waits end
    local ttl = redis.call('PTTL', bucket)
    local forbidden = not_permitted('DEL', bucket)
    if forbidden then return forbidden end

    redis.call('RPOP', KEYS[i])
    if job.err or not job[1] then
      ghosts[#ghosts + 1] = id
    elseif type(waits) == 'string' then
      -- postponed
    elseif job[1] ~= topic then
      local passed = redis.pcall('LPUSH', ARGV[2] .. job[1], id)
      if type(passed) == 'table' then redis.pcall('ZADD', pool, 0, id) end
    else
      redis.call('DEL', bucket)
      return {0, ghosts, id, topic, job[2] or '', ttl}
    end
  end
end
if err then return err end
return {0, ghosts}
