-- fsck_keys: checks keys that SCAN has returned, and repairs them if asked to. fsck_set, fsck_queue and fsck_pool check the contents
-- of sets and queues.
--
-- KEYS[1] job pool
-- ARGV[1] REPAIR, or '' to change nothing   ARGV[2…] a kind, see FoundKey in Go; and the rest of the key's name: an ID, a topic, …
-- Returns {took, candidates, findings}: the script's own time (µs); IDs and topics of jobs that are not in the pool: ready, or lost;
-- and {kind, place in ARGV of the name, 1 if it was repaired, …}.
-- Errors: NOPERM. Nothing has changed then.
--
-- A key of the wrong type, or a hash that is no job, is renamed to MOVED and its name, as it may belong to another program.
-- Atomic because a key may be written between the check and the change. Cost: O(keys).
-- include: guard pause schedule time topics cluster
local FIRST = 2
local MOVED = 'fsck:'
local GROUP_KEPT = 60000 + 5000 -- ms; a group's hash outlives its due time by a minute
local PARKED = 1000             -- entries of a queue that one call moves
local watch, repairs = stopwatch(), ARGV[1] == REPAIR
local candidates, findings = {}, {}

local function move_away(key)
  local moved = redis.pcall('RENAMENX', key, MOVED .. key)
  return moved == 1
end

local function delete(key) return redis.pcall('DEL', key) == 1 end

local function list_letter(id, topic, died)
  redis.call('ZADD', dead_lists .. topic, died, id)
  redis.call('ZADD', dead_topics, 'NX', died, topic)
  register_use(topic, now_s, 0)
  return true
end

local function end_pause(topic)
  if not_pausable() then return false end
  local _, more = release(topic, PARKED)
  return not more
end

local function is_paused(topic) return redis.call('HEXISTS', pauses, topic) == 1 end

local function check_bucket(id, key)
  local job = redis.call('HMGET', key, 'topic', 'revision', 'next')
  local topic = job[1]
  if not topic then return 'incomplete', move_away end
  if redis.call('ZSCORE', pool, id) then return nil end
  if topic == SCHEDULE_TOPIC and job[2] and schedule_name(id) then
    if not job[3] or job[3] == '' then return nil end
    return 'schedule_without_entry', function() return redis.pcall('ZADD', pool, score_of(tonumber(job[3])), id) == 1 end
  end
  candidates[#candidates + 1], candidates[#candidates + 2] = id, topic
end

local function check_letter(id, key)
  local letter = redis.call('HMGET', key, 'topic', 'died')
  local topic = letter[1]
  if not topic then return 'incomplete', move_away end
  local died = tonumber(letter[2]) or now
  if redis.pcall('ZSCORE', dead_lists .. topic, id) == false then
    return 'dead_letter_unlisted', function() return list_letter(id, topic, string.format('%d', died)) end
  end
end

local function check_queue(topic)
  if topic == SCHEDULE_TOPIC or redis.call('ZSCORE', known_topics, topic) then return nil end
  return 'unknown_topic', function()
    register_use(topic, now_s, 0)
    return true
  end
end

local function check_parked(topic)
  if not is_paused(topic) then return 'parked_without_pause', function() return end_pause(topic) end end
  return check_queue(topic)
end

local function check_slots(topic)
  local limit = redis.call('HGET', limits, topic)
  if not limit or string.sub(limit, 1, 1) == '-' then return 'unreferenced', delete end
end

local function check_once(id, key)
  if not redis.call('ZSCORE', once, id) or redis.call('PTTL', key) == -1 then return 'unreferenced', delete end
end

local function check_group(_, key)
  local id, left = redis.call('HGET', key, 'id'), redis.call('PTTL', key)
  if (left < 0 or left > GROUP_KEPT) and not (id and redis.call('EXISTS', buckets .. id) == 1) then return 'group_without_job', delete end
end

local function check_lasting(_, key)
  if redis.call('PTTL', key) == -1 then return 'unreferenced', delete end
end

local function check_paused_waiters(topic)
  if not is_paused(topic) then return 'parked_without_pause', function() return end_pause(topic) end end
end

local checks = { -- by kind; of the others only the type is checked
  bucket = check_bucket, letter = check_letter, ready = check_queue, parked = check_parked, slots = check_slots,
  once = check_once, group = check_group, text = check_lasting, client = check_lasting,
  paused_waiters = check_paused_waiters,
}

-- The problem with a key and its repair, or an error reply if it can't be read.
local function check(kind, name, key)
  local found = redis.pcall('TYPE', key)
  if found.err then return found end
  if found.ok == 'none' then return nil end
  if kind == 'waiters' and found.ok == 'hash' then
    if not is_paused(name) then return 'parked_without_pause', function() return end_pause(name) end end
    return nil
  end
  if found.ok ~= KEY_KINDS[kind][1] then return 'wrong_type', move_away end
  if checks[kind] then return checks[kind](name, key) end
end

if repairs then
  local err = not_permitted('RENAMENX', buckets, MOVED .. buckets) or not_permitted('DEL', buckets) or not_permitted('ZADD', known_topics, '0', '')
    or not_permitted('ZADD', dead_lists, '0', '') or elsewhere(buckets)
  if err then return err end
end
local to_repair = {}
for i = FIRST, #ARGV, 2 do
  local kind, name = ARGV[i], ARGV[i + 1]
  local key = prefix .. KEY_KINDS[kind][2] .. name
  local found, repair = check(kind, name, key)
  if type(found) == 'table' then return found end
  if found then
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = found, i + 1, 0
    to_repair[#findings] = function() return repair(key) end
  end
end
if repairs then
  for i = 3, #findings, 3 do findings[i] = to_repair[i]() and 1 or 0 end
end
return {watch(), candidates, findings}
