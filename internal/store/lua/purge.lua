-- purge: deletes the next ready jobs of a topic, or its parked ones if it is paused.
--
-- KEYS, ARGV[1…4] and the topic at the end: see parts/take.lua; it registers and wakes no client
-- ARGV[5] how many entries to drop at most
-- Returns {deleted, used}: how many jobs, and how many entries. It uses fewer than allowed at the end of the queue, or to save time.
-- Errors: as pop.
-- Atomic because an entry and its job belong together, and a job may wait or be reserved again. Cost: O(entries).
-- include: take
if pcall('EXISTS', KEYS[2]) == 0 then KEYS[2] = parked_queues .. ARGV[#ARGV] end -- paused, or empty
local most = math.min(tonumber(ARGV[5]), entries_left)
entries_left = most
local deleted = 0

-- Like a pop, but without reading the bodies.
local function read(name) return pcall('HMGET', name, 'topic') end

local function delete(jobs, names, n)
  if n == 0 then return nil, jobs end
  local gone = pcall('DEL', unpack(names))
  if type(gone) == 'table' then return gone end
  deleted = deleted + gone
  return nil, jobs
end

local reply = take_all(read, nil, delete)
if reply.err then return reply end
return {deleted, most - entries_left}
