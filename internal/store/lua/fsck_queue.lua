-- fsck_queue: reads a page of a topic's ready queue, or of its parked jobs.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] 'ready' or 'parked'   ARGV[3] how many entries at the right end are left to read; '' to begin
-- ARGV[4] the last entry read, '' for none   ARGV[5] how many entries to read
-- Returns {took, left, last, read, ids}: the script's own time (µs); ARGV[3…4] of the next call, 0 at the end; how many entries the page has;
-- and the IDs of those that have a job. A queue of another type is empty.
-- Errors: NOPERM.
--
-- Entries are counted from the right end, where only releases add entries. If consumers have taken some meanwhile, the page starts
-- after the last entry read. So no entry is skipped; one may be read twice.
-- One script so that an entry and its job are read together. Cost: O(entries).
-- include: guard time
local watch = stopwatch()
local topic, count = ARGV[1], tonumber(ARGV[5])
local queue = (ARGV[2] == 'parked' and parked_queues or queues) .. topic
local length = redis.pcall('LLEN', queue)
if unreadable(length) then return length end
if type(length) ~= 'number' or length == 0 then return {watch(), 0, '', 0, {}} end

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
local ids = {}
for i = first, #page do
  local owner = redis.pcall('HGET', buckets .. page[i], 'topic')
  if unreadable(owner) then return owner end
  if type(owner) == 'string' then ids[#ids + 1] = page[i] end
end
return {watch(), last - 1, page[#page] or ARGV[4], math.max(#page - first + 1, 0), ids}
