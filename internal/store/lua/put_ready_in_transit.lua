-- put_ready_in_transit: puts the next jobs of a ready queue in transit to another partition; jobs that stay go to the queue's end. A batch
-- that is in transit already is returned instead.
--
-- KEYS[1] job pool   KEYS[2] the ready queue, or the topic's parked jobs
-- ARGV[1] how many IDs leave   ARGV[2…] these, then those that stay, 1,000 in all at most: the queue's next entries when they were read.
--   Entries that were added since are left alone.
-- Returns {serial, was there, read, {}, job, job, …} as put_in_transit does; read counts entries of the queue.
-- Errors: WRONGTYPE of the queue, NOPERM, READONLY. Nothing has changed then.
-- Atomic because a job must be in transit or ready, never both or neither.
-- Cost: O(entries read).
-- include: guard queue transit cluster
local FIRST = 2
local queue = KEYS[2]
local reply = {0, 0, 0, {}}
if redis.call('HLEN', transit) > 0 then return tell_batch(reply, true) end

local err = not_a_list(queue) or no_transit() or not_permitted('LTRIM', queue, '0', '0') or not_permitted('RPUSH', queue, '')
  or not_permitted('LPUSH', queue, '') or elsewhere(transit_jobs)
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local leave_until, known = FIRST + ARGV[1] - 1, {}
for i = FIRST, #ARGV do known[ARGV[i]] = i <= leave_until and 'leaves' or 'stays' end

-- Whether the entry leaves the queue: as a job in transit, or because it is no ready job of this topic.
local function leaves(id)
  local bucket = buckets .. id
  local topic = redis.pcall('HGET', bucket, 'topic')
  if type(topic) ~= 'string' or redis.call('ZSCORE', pool, id) then return true end
  if queues .. topic ~= queue and parked_queues .. topic ~= queue then
    pass_on(id, topic)
    return true
  end
  if batch_bytes > BATCH_BYTES then return false end
  add_hash(bucket, 'r' .. id, batched)
  drop_old_lease(transit_jobs .. 'r' .. id)
  return true
end

local count = #ARGV - FIRST + 1
local window = redis.call('LRANGE', queue, -count, -1)
local first, to_end = {}, {} -- what stays where it is, and what goes to the end, the next first
for i = #window, 1, -1 do
  local id = window[i]
  if known[id] == 'stays' then
    to_end[#to_end + 1] = id
  elseif not known[id] or not leaves(id) then
    first[#first + 1] = id
  end
end
if #first < #window then
  redis.call('LTRIM', queue, 0, -#window - 1)
  for i = #first, 1, -1 do redis.call('RPUSH', queue, first[i]) end
  for i = 1, #to_end do redis.call('LPUSH', queue, to_end[i]) end
end
reply[3] = #window - #first
if batched == 0 then return reply end
return tell_batch(reply, false)
