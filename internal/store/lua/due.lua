-- due: the next jobs to move, by topic; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with
-- ARGV[2] how many jobs at most
-- ARGV[3] until when a job must have been due to count as backlog (Unix seconds), '' if all do;
--         those that have fallen due since are fresh
-- ARGV[4] how many of the first jobs of the backlog to pass over   ARGV[5] and of the fresh ones
--
-- Returns {took, now, due, wait, orphans, fresh, backlog}: took is the script's own time in µs
-- (0 where Redis has no clock that runs inside a script); now is Redis's time in Unix seconds; due
-- is how many jobs are due in all; wait is the time until the next falls due, in µs, -1 if none is
-- known; orphans are the due IDs without a usable bucket; fresh and backlog are
-- {looked, topic, ids, topic, ids, …}: how many entries were looked at, and the ids of each topic in due order.
-- Errors: WRONGTYPE of the pool; a permission that is missing.
--
-- Fresh jobs go first, for at most half of the places as long as the backlog fills the
-- others: so they don't wait for a backlog, nor does that wait for them.
-- Atomic because the counts and ranks must be of one moment.
-- Cost: O(log n) of the pool, and O(1) a job looked up.
local stop = stopwatch()
local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local due = redis.pcall('ZCOUNT', KEYS[1], '-inf', now)
if type(due) == 'table' then
  return redis.error_reply(due.err .. ' (job pool ' .. KEYS[1] .. ')')
end

local wait = -1
local next = redis.call('ZRANGE', KEYS[1], due, due, 'WITHSCORES')
if next[2] then
  wait = math.min(math.ceil((tonumber(next[2]) - tonumber(now)) * 1000000), 3600000000)
end

local orphans = {}

-- What lies at count ranks of the pool from first on, or an error reply.
local function look(first, count)
  local found, of_topic = {count}, {}
  if count == 0 then return found end
  local call, prefix = redis.pcall, ARGV[1]
  local due_ids = call('ZRANGE', KEYS[1], first, first + count - 1)
  for i = 1, #due_ids do
    local id = due_ids[i]
    local topic = call('HGET', prefix .. id, 'topic')
    local ids = of_topic[topic]
    if ids then
      ids[#ids + 1] = id
    elseif type(topic) == 'string' then
      ids = {id}
      of_topic[topic] = ids
      found[#found + 1], found[#found + 2] = topic, ids
    elseif refused(topic) then
      return topic
    else
      orphans[#orphans + 1] = id
    end
  end
  return found
end

local limit, skip_backlog, skip_fresh = tonumber(ARGV[2]), tonumber(ARGV[4]), tonumber(ARGV[5])
local backlog = due
if ARGV[3] ~= '' then backlog = math.min(redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[3]), due) end
local backlog_left = math.max(backlog - skip_backlog, 0)
local fresh_left = math.max(due - backlog - skip_fresh, 0)
local of_fresh = math.min(fresh_left, math.max(math.ceil(limit / 2), limit - backlog_left))
local of_backlog = math.min(backlog_left, limit - of_fresh)

local fresh_found = look(backlog + skip_fresh, of_fresh)
if fresh_found.err then return fresh_found end
local backlog_found = look(skip_backlog, of_backlog)
if backlog_found.err then return backlog_found end
return {stop(), now, due, wait, orphans, fresh_found, backlog_found}
