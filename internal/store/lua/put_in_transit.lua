-- put_in_transit: puts jobs and dead letters in transit to another partition, with open groups and pushes that count once. They
-- are not delivered until that partition has adopted them. A batch that is in transit already is returned first.
--
-- KEYS[1] job pool   KEYS[2] a topic's dead letters, if the IDs were found there
-- ARGV[1] 'all': reserved jobs too, with their leases; 'free': these stay; 'look': changes nothing
-- ARGV[2…] IDs, 1,000 at most; a tag stands for its open group
-- Returns {serial, was there, read, reserved, job, job, …}: see tell_batch; how many of the IDs were read, since a batch has about 256 KiB at
-- most; and the 1-based positions of those that stay because they are reserved. If another batch is in transit, and an ID exists or none was
-- given, it returns that one. The serial number is 0 if no job is in transit. 'look' returns the positions of the IDs that exist or are in
-- transit instead of the reserved ones, and reads all.
-- Errors: NOPERM, READONLY. Nothing has changed then.
-- Atomic because a job must be in transit or in its old state, never both or neither.
-- Cost: O(log n) of the pool for each ID; of ready jobs also O(their queues), 10,000 entries in all at most.
-- include: dead guard lease queue schedule transit cluster
local FIRST = 2
local reply = {0, 0, 0, {}}
local waits = redis.call('HLEN', transit) > 0
local some_exist, looks = waits and #ARGV < FIRST, ARGV[1] == LOOK
for i = FIRST, #ARGV do
  local id = ARGV[i]
  local exists = some_exist and not looks or KEYS[2] or redis.call('EXISTS', buckets .. id, dead_letters .. id, groups .. id) > 0
    or redis.call('ZSCORE', pool, id) or redis.call('ZSCORE', once, id)
  for kind in string.gmatch(waits and not exists and 'wrdog' or '', '.') do
    exists = exists or redis.call('HEXISTS', transit, kind .. id) == 1
  end
  if exists and looks then reply[4][#reply[4] + 1] = i - FIRST + 1 end
  some_exist = some_exist or exists
end
if looks or not some_exist then
  reply[3] = #ARGV - FIRST + 1
  return reply
end
if waits then return tell_batch(reply, true) end

local err = no_transit() or not_permitted('ZREM', pool, '') or elsewhere(transit_jobs)
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local ended, ended_ids = {}, {} -- leases, by topic, and their jobs
local function take_job(id, place)
  local bucket = buckets .. id
  local topic = redis.pcall('HGET', bucket, 'topic')
  local score = redis.call('ZSCORE', pool, id)
  if type(topic) ~= 'string' then
    if score then redis.call('ZREM', pool, id) end -- an orphan
    return
  end
  local reserved = score and is_lease(score)
  if reserved and ARGV[1] == FREE_JOBS then
    reply[4][#reply[4] + 1] = place
    return
  end
  if score then redis.call('ZREM', pool, id) else withdraw(topic, id) end
  if topic == SCHEDULE_TOPIC then redis.call('ZREM', schedules, schedule_name(id) or '') end
  local entry = (score and 'w' or 'r') .. id
  add_hash(bucket, entry, score or batched)
  if reserved then
    ended[topic], ended_ids[#ended_ids + 1] = (ended[topic] or 0) - 1, id
  else
    drop_old_lease(transit_jobs .. entry)
  end
end

-- Puts the open group in transit whose ID, or tag, this is. (A reserved one is not open, and may stay.)
local function take_group(id)
  local tag = string.match(id, '^{[^}]*}')
  local taking = tag and redis.pcall('HGET', groups .. tag, 'id')
  if type(taking) ~= 'string' or id ~= tag and id ~= taking then return end
  add_hash(groups .. tag, 'g' .. tag, 0)
  if id == tag then take_job(taking) end
end

for i = FIRST, #ARGV do
  if batch_bytes > BATCH_BYTES then break end
  take_job(ARGV[i], i - FIRST + 1)
  take_letter(ARGV[i])
  take_once(ARGV[i])
  take_group(ARGV[i])
  if KEYS[2] then unlist(string.sub(KEYS[2], #dead_lists + 1), ARGV[i]) end -- a letter that is gone
  reply[3] = reply[3] + 1
end
count_reserved(ended, ended_ids)
if batched == 0 then return reply end
return tell_batch(reply, false)
