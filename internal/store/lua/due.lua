-- due: finds the jobs to move next, by topic. If they are few it moves them itself; else it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] how many jobs at most   ARGV[2] jobs due by then (Unix s) are backlog, later ones fresh; '': all are backlog
-- ARGV[3…4] how many of the first backlog jobs, and of the first fresh ones, to skip
-- ARGV[5] how many due jobs to move at most, except schedules and if there are no orphans; may be absent: none
-- ARGV[6] when to retry jobs that a queue can't take (Unix ms)
-- Returns {took, now, due, wait, orphans, fresh, backlog, moved}: the script's own time (µs; 0 where Redis has no clock that advances
-- inside a script); Redis's time (Unix s); how many jobs are due; in how long the next one is due (µs; -1 if unknown); due IDs whose bucket
-- is gone, has no topic, is no hash or can't be read; two lists {count, topic, ids, topic, ids, …}, with the number of entries read and
-- each topic's IDs in due order; and what move returns for each topic of the backlog, {} for schedules, if they were moved.
-- Errors: WRONGTYPE of the pool, NOPERM, READONLY, since a replica may be behind.
--
-- Fresh jobs come first, but fill at most half of the answer while the backlog fills the rest: neither delays the other. Either list
-- ends early when its IDs reach MAX_BYTES.
-- Atomic because counts and ranks must match.
-- Cost: O(log n) of the pool, and O(1) for each job.
-- include: guard time
local MAX_BYTES = 524288
local FIRST_PAGE, LAST_PAGE = 16, 256 -- IDs read at a time, which may be large

local stop = stopwatch()
local at = time[1] .. '.' .. string.format('%06d', time[2])
local due = redis.pcall('ZCOUNT', pool, '-inf', at)
if type(due) == 'table' then
  return redis.error_reply(due.err .. ' (job pool ' .. pool .. ')')
end
local err = not_writable()
if err then return err end

local wait = -1
local next = redis.call('ZRANGE', pool, due, due, 'WITHSCORES')
if next[2] then
  wait = math.min(math.ceil((tonumber(next[2]) - tonumber(at)) * 1000000), 3600000000)
end

if due == 0 then return {stop(), at, 0, wait, {}, {0}, {0}, {}} end

local orphans, some_jobs = {}, false

-- The jobs at up to count ranks of the pool, from first on.
local function jobs_at(first, count)
  local found, of_topic = {0}, {}
  local call, prefix = redis.pcall, buckets
  local n, bytes, page = 0, 0, FIRST_PAGE
  while n < count and bytes < MAX_BYTES do
    local ids = redis.call('ZRANGE', pool, first + n, first + math.min(n + page, count) - 1)
    page = math.min(4 * page, LAST_PAGE)
    local read = #ids
    for i = 1, read do
      local id = ids[i]
      local topic = call('HGET', prefix .. id, 'topic')
      local of_same = of_topic[topic]
      if of_same then
        of_same[#of_same + 1] = id
      elseif type(topic) == 'string' then
        of_same = {id}
        of_topic[topic] = of_same
        found[#found + 1], found[#found + 2] = topic, of_same
        some_jobs = some_jobs or topic ~= SCHEDULE_TOPIC
      else
        if unreadable(topic) then err = err or all_unreadable() end
        orphans[#orphans + 1] = id
      end
      bytes = bytes + #id
      if bytes >= MAX_BYTES then
        read = i
        break
      end
    end
    n = n + read
  end
  found[1] = n
  return found
end

local limit, skip_backlog, skip_fresh = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local backlog = due
if ARGV[2] ~= '' then backlog = math.min(redis.call('ZCOUNT', pool, '-inf', ARGV[2]), due) end
local backlog_left = math.max(backlog - skip_backlog, 0)
local fresh_left = math.max(due - backlog - skip_fresh, 0)
local of_fresh = math.min(fresh_left, math.max(math.ceil(limit / 2), limit - backlog_left))
local of_backlog = math.min(backlog_left, limit - of_fresh)

local fresh_jobs = jobs_at(backlog + skip_fresh, of_fresh)
local backlog_jobs = jobs_at(skip_backlog, of_backlog)
if err then return err end

if due > tonumber(ARGV[5] or 0) or backlog_jobs[1] < due or #orphans > 0 or not some_jobs then
  return {stop(), at, due, wait, orphans, fresh_jobs, backlog_jobs, {}}
end
-- include: move: move; cluster: IN_CLUSTER; keys: queues
if IN_CLUSTER then
  -- include: cluster: elsewhere
  for i = 2, #backlog_jobs, 2 do
    err = backlog_jobs[i] ~= SCHEDULE_TOPIC and elsewhere(queues .. backlog_jobs[i])
    if err then return err end
  end
end
local moved = {}
for i = 2, #backlog_jobs, 2 do
  local topic = backlog_jobs[i]
  moved[#moved + 1] = topic == SCHEDULE_TOPIC and {} or move({topic, at, 0, ARGV[6], unpack(backlog_jobs[i + 1])})
end
return {stop(), at, due, wait, orphans, fresh_jobs, backlog_jobs, moved}
