-- push: stores jobs and schedules them; an ID that exists is replaced, or as the policy says.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with   ARGV[2] what those of ready queues begin with
-- ARGV[3] the channel on which servers are told of a job that is now the next to fall due
-- ARGV[4] how long a job is kept once it is ready, ms
-- ARGV[5] 'replace', 'refuse', 'earlier' or 'later': what becomes of an ID that exists
-- ARGV[6] 'each': every job for itself; 'all': all of them or none
-- ARGV[7…] of each job: ID, topic, body, and when it is due: '+' and a delay in ms, or a Unix time in ms
--
-- Returns what became of each job: 1, it is stored; 0, it exists and the policy is
-- 'refuse'; a text, the error because of which it is not stored. With 'all' a job is
-- stored only if the reply has nothing but 1.
-- Errors: WRONGTYPE of the pool, OOM and the like, before anything is written.
--
-- Atomic because a bucket without its pool entry would never fall due, and a
-- pool entry without its bucket could not be delivered.
-- Cost: O(log n) of the pool for each job; of an ID that is ready, also its queue's
-- length (at most 10,000).
local pool, buckets, queues, lifetime, policy = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[4]), ARGV[5]
local FIRST, FIELDS = 7, 4

local pool_type = redis.call('TYPE', pool).ok
if pool_type ~= 'none' and pool_type ~= 'zset' then
  return redis.error_reply('WRONGTYPE job pool ' .. pool .. ' is a ' .. pool_type .. ', not a zset')
end
local now = math.ceil(clock() * 1000)
local next_id, next_due -- of the jobs stored here, the first to fall due

-- What keeps a job from being stored (0 or an error's text), or nil; then when
-- it is due, the topic of the job that it replaces, and whether that one waits.
local function look(i)
  local id, due = ARGV[i], ARGV[i + 3]
  if string.sub(due, 1, 1) == '+' then due = now + string.sub(due, 2) else due = tonumber(due) end
  local was, waits = redis.pcall('HGET', buckets .. id, 'topic'), false
  if type(was) == 'table' then return was.err .. ' (job bucket ' .. buckets .. id .. ')' end
  if was then
    if policy == 'refuse' then return 0 end
    waits = redis.call('ZSCORE', pool, id)
    local old = waits and math.min(tonumber(waits) * 1000, LAST_MS) or now
    if policy == 'earlier' then due = math.min(due, old) end
    if policy == 'later' then due = math.max(due, old) end
  end
  if due <= now then
    local err = not_a_list(queues .. ARGV[i + 1])
    if err then return err.err end
  end
  return nil, due, was, waits
end

local function store(i, due, was, waits)
  local id, topic = ARGV[i], ARGV[i + 1]
  -- The first write is one that Redis refuses at maxmemory, so that a push is
  -- refused whole.
  redis.call('HSET', buckets .. id, 'topic', topic, 'body', ARGV[i + 2])
  redis.call('PEXPIRE', buckets .. id, string.format('%.0f', math.max(due - now, 0) + lifetime))
  if was and not waits then withdraw(queues .. was, id) end
  put(pool, queues .. topic, id, due, now)
  if due > now and not (next_due and next_due <= due) then next_id, next_due = id, due end
end

local reply, fine = {}, true
if ARGV[6] == 'all' then
  for i = FIRST, #ARGV, FIELDS do
    local why_not = look(i)
    reply[#reply + 1] = why_not or 1
    fine = fine and not why_not
  end
  if not fine then return reply end
  reply = {}
end
for i = FIRST, #ARGV, FIELDS do
  local why_not, due, was, waits = look(i)
  if not why_not then
    if ARGV[6] == 'all' then
      store(i, due, was, waits)
    else
      local stored, err = pcall(store, i, due, was, waits)
      if not stored then why_not = type(err) == 'table' and err.err or err end
    end
  end
  reply[#reply + 1] = why_not or 1
end
if next_id then tell(pool, next_id, next_due, now, ARGV[3]) end
return reply
