-- fsck_set: checks a page of a set that lists jobs, besides the pool and the queues: a topic's dead letters, or the schedules. It repairs
-- the page if asked to.
--
-- KEYS[1] job pool
-- ARGV[1] 'dead' or 'schedules'   ARGV[2] the topic, or ''   ARGV[3] 0 to begin, or next of the last call
-- ARGV[4] how many entries, about   ARGV[5] REPAIR, or '' to change nothing   ARGV[6] RETURN_IDS to return the IDs of the page
-- Returns {took, next, ids, findings}: the script's own time (µs); ARGV[3] of the next call, 0 at the end; the IDs, if asked for; and {kind,
-- name, 1 if it was repaired, …}. A set of another type is empty. Errors: NOPERM. Nothing has changed then.
-- Atomic because an entry and its job belong together. Cost: O(entries).
-- include: dead guard schedule time cluster
local watch, which, topic, repairs = stopwatch(), ARGV[1], ARGV[2], ARGV[5] == REPAIR
local set = ({dead = dead_lists .. topic, schedules = schedules})[which]
if repairs then
  local err = not_permitted('ZREM', set, '') or elsewhere(buckets)
  if err then return err end
end
local page = redis.pcall('ZSCAN', set, ARGV[3], 'COUNT', ARGV[4])
if page.err then return unreadable(page) and page or {watch(), '0', {}, {}} end
local ids, findings = {}, {}

-- Each returns the problem with an entry and its repair, or an error reply.
local checks = {}

function checks.dead(id)
  local owner = redis.pcall('HGET', dead_letters .. id, 'topic')
  if unreadable(owner) then return owner end
  if owner ~= topic then return 'dead_entry_without_letter', function() unlist(topic, id) end end
end

function checks.schedules(name)
  local id = schedule_id(name)
  local s = redis.pcall('HMGET', buckets .. id, 'topic', 'revision')
  if unreadable(s) then return s end
  if s[1] ~= SCHEDULE_TOPIC or not s[2] then
    return 'schedule_without_job', function()
      redis.call('ZREM', set, name)
      redis.pcall('ZADD', removed_schedules, 0, name)
    end
  end
end

local to_repair = {}
for i = 1, #page[2], 2 do
  local entry = page[2][i]
  local kind, repair = checks[which](entry)
  if type(kind) == 'table' then return kind end
  if ARGV[6] == RETURN_IDS then ids[#ids + 1] = entry end
  if kind then
    to_repair[#to_repair + 1] = repair
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, entry, repairs and 1 or 0
  end
end
for _, repair in ipairs(repairs and to_repair or {}) do repair() end
return {watch(), page[1], ids, findings}
