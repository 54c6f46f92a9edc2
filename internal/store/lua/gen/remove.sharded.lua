local pool = KEYS[1]
local prefix = string.match(pool, '^(.*)job_pool$') or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local reserved_counts = prefix .. 'reserved'
local once = prefix .. 'once'
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
-- require: keys guard lease
-- remove: takes a job out, wherever it is; one that is reserved, too. If there is only a dead
-- letter of that ID, that is deleted. A push of that ID counts again.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the dead letter's. That key seldom exists, so Redis refuses the call before it begins
-- while the slot of a cluster moves
-- ARGV[1] job ID
--
-- Returns 1 when there was a job, which from now on nobody gets; else 0.
-- Errors: WRONGTYPE of the bucket, a permission that is missing, before anything is written.
--
-- Atomic because a move or a pop in between would deliver the job.
-- Cost: O(log n) of the pool; of an ID that is ready, also its queue's length (at most 10,000).
local call, pcall, id = redis.call, redis.pcall, ARGV[1]
local topic = call('HGET', KEYS[2], 'topic')
local waits = call('ZSCORE', pool, id)
local err = not_permitted('ZREM', pool, '')
if err then return err end
-- The bucket first: an entry that is left behind means nothing without it.
local removed = call('DEL', KEYS[2])
pcall('ZREM', once, id)
local reserved -- how many of its topic are left, if it was
if waits then
  call('ZREM', pool, id)
  if topic and is_lease(waits) then
    reserved = pcall('HINCRBY', reserved_counts, topic, '-1')
    reserved = type(reserved) == 'number' and reserved
    if reserved and reserved <= 0 then pcall('HDEL', reserved_counts, topic) end
  end
  -- Most calls end here, a reserved or waiting job of a topic without slots, before what others need is defined.
  if removed == 1 and not (reserved and reserved >= 3 * 2 ^ 39) then return 1 end
end

local queues = prefix .. 'ready_queue:'
local waiters = prefix .. 'waiting:'
local slots = prefix .. 'slots:'
local held_back = prefix .. 'held_back:'
local dead_letters = prefix .. 'dead_letter:'
local dead_lists = prefix .. 'dead_letters:'
local dead_topics = prefix .. 'dead_topics'
local entries_to_walk = 10000
local function withdraw(topic, id)
  local queue = queues .. topic
  for _ = 1, 2 do
    local length = redis.pcall('LLEN', queue)
    if type(length) ~= 'number' or length > entries_to_walk then return end
    entries_to_walk = entries_to_walk - length
    if length > 0 and redis.pcall('LREM', queue, 0, id) ~= 0 then return end
    queue = prefix .. 'paused_queue:' .. topic
  end
end
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end
local function let_go_on(topic)
  if redis.pcall('EXISTS', held_back .. topic, waiters .. topic) == 0 then return nil end
local queues = prefix .. 'ready_queue:'
local waiters = prefix .. 'waiting:'
local wake_channels = prefix .. 'wake:'
local held_back = prefix .. 'held_back:'
local MOST_DEAD = 100
local function wake(topic, jobs)
  for _ = 1, MOST_DEAD do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      local is_paused = first.err and string.find(first.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', prefix .. 'paused', topic)[1]
      if not is_paused then return false, first.err end
      for _ = 1, jobs do
        local id = redis.pcall('LMOVE', queues .. topic, prefix .. 'paused_queue:' .. topic, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end
      end
      return false
    end
    local receivers = redis.pcall('SPUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
  end
  return false
end
local function let_wait(topic)
  local all, waiting = redis.pcall('ZPOPMIN', held_back .. topic, 1000), waiters .. topic
  if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = prefix .. 'paused_waiting:' .. topic end
  for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
  if all[1] then redis.pcall('PEXPIRE', waiting, 3600000) end
end
local function wake_next(topic)
  local jobs = redis.pcall('LLEN', queues .. topic)
  if type(jobs) ~= 'number' then return false end
  if jobs == 0 then
    let_wait(topic)
    return false
  end
  for _ = 1, 100 do
    local first = redis.pcall('ZPOPMIN', held_back .. topic)
    if not first[1] then return wake(topic, jobs) end
    local receivers = redis.pcall('SPUBLISH', wake_channels .. first[1], string.format('%d %s', jobs, topic))
    if receivers ~= 0 then return type(receivers) == 'number' end
  end
  return false
end
  return wake_next(topic)
end
-- require: keys queue dead held
if reserved and reserved >= 3 * 2 ^ 39 then -- see count_reserved
  pcall('ZREM', slots .. topic, id)
  let_go_on(topic)
elseif topic and not waits then
  withdraw(topic, id)
end
if removed == 1 then return 1 end
local dead = call('HGET', KEYS[3], 'topic')
if not dead then return 0 end
call('DEL', KEYS[3])
unlist(dead, id)
return 1
