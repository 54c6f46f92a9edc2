-- fsck_queue: checks a page of a topic's ready queue, or of its parked jobs, and repairs it if asked to.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] 'ready' or 'parked'   ARGV[3] how many entries at the right end are left to read; '' to begin
-- ARGV[4] the last entry read, '' for none   ARGV[5] how many entries to read   ARGV[6] REPAIR, or '' to change nothing
-- Returns {took, left, last, ids, findings}: the script's own time (µs); ARGV[3…4] of the next call, 0 at the end; the IDs of the page
-- that have a ready job of the topic; and {kind, id, 1 if it was repaired, …}. A queue of another type is empty.
-- Errors: WRONGTYPE of the pool, NOPERM. Nothing has changed then.
--
-- Entries are counted from the right end, where only releases add entries. If consumers have taken some meanwhile, the page starts
-- after the last entry read. So no entry is skipped; one may be read twice.
-- Removing an entry from the middle costs a walk over the queue. So the entries of a page are first marked by an empty ID, then
-- removed in one walk. Entries of a queue of more than MAX_WALK entries are not removed.
-- Atomic because an ID may be pushed, or taken, between the check and the removal. Cost: O(entries), and O(the queue) for a repair.
-- include: guard queue time cluster
local MAX_WALK, SEARCHED = 20000, 5000 -- 1.3 ms, 0.2 ms
local watch = stopwatch()
local topic, count, repairs = ARGV[1], tonumber(ARGV[5]), ARGV[6] == REPAIR
local queue = (ARGV[2] == 'parked' and parked_queues or queues) .. topic
local length = redis.pcall('LLEN', queue)
if unreadable(length) then return length end
if type(length) ~= 'number' or length == 0 then return {watch(), 0, '', {}, {}} end
if repairs then
  local err = not_writable() or not_permitted('LSET', queue, '0', '') or not_permitted('LREM', queue, '0', '')
    or not_permitted('LPUSH', queue, '') or elsewhere(queue)
  if err then return err end
end

local left = ARGV[3] == '' and length or tonumber(ARGV[3])
local last = math.max(left - count + 1, 1) -- of the page, from the right end
local page = redis.call('LRANGE', queue, -left - 1, -last)
local first = 1
for i, id in ipairs(page) do
  if id == ARGV[4] then
    first = i + 1
    break
  end
end
local waits = #page > 0 and redis.call('ZMSCORE', pool, unpack(page)) or {}
local owners = {}
for i = first, #page do
  owners[i] = redis.pcall('HGET', buckets .. page[i], 'topic')
  if unreadable(owners[i]) then return owners[i] end
end

local function wrong_with(i)
  if waits[i] then return 'ready_and_waiting' end
  if type(owners[i]) ~= 'string' then return 'entry_without_job' end
  if owners[i] ~= topic then return 'entry_of_other_topic' end
end

local ids, findings, marked, misrouted, anchor = {}, {}, false, {}, ARGV[4]
for i = first, #page do
  local id, kind, repaired = page[i], wrong_with(i), 0
  if not kind then
    ids[#ids + 1], anchor = id, id
  elseif repairs and length <= MAX_WALK then
    redis.call('LSET', queue, -(last + #page - i), '')
    marked, repaired = true, 1
    if kind == 'entry_of_other_topic' then misrouted[#misrouted + 1] = {id, owners[i]} end
  else
    anchor = id
  end
  if kind then
    findings[#findings + 1], findings[#findings + 2], findings[#findings + 3] = kind, id, repaired
  end
end
if marked then redis.call('LREM', queue, 0, '') end
for _, entry in ipairs(misrouted) do
  local is_queued = redis.pcall('LPOS', queues .. entry[2], entry[1], 'MAXLEN', SEARCHED)
  if type(is_queued) ~= 'number' then pass_on(entry[1], entry[2]) end
end
return {watch(), last - 1, anchor, ids, findings}
