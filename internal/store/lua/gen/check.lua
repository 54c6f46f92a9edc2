-- check: looks at the lengths of ready queues, and registers a waiter at those that are empty.
local registered_at
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local waiters = prefix .. 'waiters:'
local WAITING_FOR = 3600000
local function add_waiter(topic, waiter, waited, among)
  if not registered_at then
    local time = redis.pcall('TIME')
    if time.err then return false, false end
    registered_at = time[1] * 1000000 + time[2]
  end
  local since, set = string.format('%.0f', registered_at - waited), (among or waiters) .. topic
  local added = redis.pcall('ZADD', set, 'NX', since, waiter)
  if type(added) == 'table' then
    local paused_waiters = prefix .. 'paused_waiters:'
    local pauses = prefix .. 'paused'
    local function is_parked(topic, reply)
      return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
    end
    if is_parked(topic, added) then
      set = paused_waiters .. topic
      added = redis.pcall('ZADD', set, 'NX', since, waiter)
    end
  end
  if type(added) == 'number' then redis.pcall('PEXPIRE', set, WAITING_FOR) end
  return type(added) == 'number', added == 1
end
local function takes_no_writes(queue)
  local reply = redis.pcall('RPOP', queue, 0)
  if type(reply) ~= 'table' or not reply.err then return nil end
  for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
    if string.find(reply.err, reason, 1, true) then return reply end
  end
end
local reply, written = {1, {}}, false
local some = redis.pcall('EXISTS', unpack(KEYS, 2)) ~= 0
local waiter = ARGV[1]
for i = 2, #KEYS do
  local length = some and redis.pcall('LLEN', KEYS[i]) or 0
  if type(length) ~= 'number' then length = 1 end
  local topic, waited = ARGV[2 * i - 2], ARGV[2 * i - 1]
  if length == 0 and waiter ~= '' and waited ~= '-1' then
    local registered, added = add_waiter(topic, waiter, waited)
    if registered then written = true else reply[1] = 0 end
    if added then reply[2][#reply[2] + 1] = i - 1 end
  end
  if some then reply[i + 1] = length end
end
-- Last, as this check counts as a write, after which nothing is refused at maxmemory.
return not written and takes_no_writes(KEYS[2]) or reply
