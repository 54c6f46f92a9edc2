-- fsck_pool: checks a page of the job pool, and repairs it if asked to.
--
-- KEYS[1] job pool
-- ARGV[1] 0 to begin, or next of the last call   ARGV[2] how many entries, about   ARGV[3] REPAIR, or '' to change nothing
-- ARGV[4] RETURN_IDS to return the IDs of the page
-- Returns {took, next, ids, leases, findings}: the script's own time (µs); ARGV[1] of the next call, 0 at the end; the IDs, if asked for;
-- topic, number of its leases, and the newest token of these, …; and {kind, id, 1 if it was repaired, …}.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
-- Atomic because a job may be pushed or removed between the check and the change. Cost: O(entries).
-- include: guard lease schedule time cluster
local watch, repairs = stopwatch(), ARGV[3] == REPAIR
if repairs then
  local err = not_writable() or not_permitted('ZADD', schedules, '0', '') or elsewhere(buckets)
  if err then return err end
end
local page = redis.call('ZSCAN', pool, ARGV[1], 'COUNT', ARGV[2])
local ids, counts, newest, findings = {}, {}, {}, {}

local to_repair = {}
local function find(kind, id, repair)
  findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, id, repairs and 1 or 0
  to_repair[#to_repair + 1] = repair
end

for i = 1, #page[2], 2 do
  local id, score = page[2][i], tonumber(page[2][i + 1])
  local job = redis.pcall('HMGET', buckets .. id, 'topic', 'lease', 'revision')
  if unreadable(job) then return job end
  local topic = job[1]
  if ARGV[4] == RETURN_IDS then ids[#ids + 1] = id end
  if topic and is_lease(score) then
    local _, token = read_lease(job[2])
    counts[topic], newest[topic] = (counts[topic] or 0) + 1, math.max(newest[topic] or 0, token)
  elseif topic == SCHEDULE_TOPIC and job[3] then
    local name = schedule_name(id)
    if name and redis.pcall('ZSCORE', schedules, name) == false then
      find('schedule_unlisted', name, function() redis.call('ZADD', schedules, 0, name) end)
    end
  end
end
for _, repair in ipairs(repairs and to_repair or {}) do repair() end
local leases = {}
for topic, count in pairs(counts) do
  leases[#leases + 1], leases[#leases + 2], leases[#leases + 3] = topic, count, string.format('%.0f', newest[topic])
end
return {watch(), page[1], ids, leases, findings}
