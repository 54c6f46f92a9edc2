-- requeue: makes dead letters ready jobs again, with all their attempts.
--
-- KEYS[1] job pool   ARGV[1] how long such a job is kept once it is ready (ms)   ARGV[2…] IDs, 1,000 at most
-- Returns {position, why, position, why, …} of the IDs that it did not requeue: NOT_FOUND; ALREADY_EXISTS, a job has this ID; or the error, a
-- text. Nothing has changed for these.
-- Errors: NOPERM. Nothing has changed then.
-- Atomic because a job must be dead or ready, never both or neither.
-- Cost: O(log n) of the topic's dead letters for each.
-- include: dead guard queue cluster
local FIRST = 2
local lifetime, first_bucket = ARGV[1], buckets .. ARGV[FIRST]
local err = not_permitted('ZREM', pool, '') or not_permitted('PEXPIRE', first_bucket, '1')
  or not_permitted('HDEL', first_bucket, 'lease') or not_permitted('HSET', first_bucket, 'options', '')
  or elsewhere(buckets) -- what is told of one job is not tried again, the call is
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory

local function requeue(id)
  local letter, name = dead_letters .. id, buckets .. id
  local topic = redis.pcall('HGET', letter, 'topic')
  if type(topic) == 'table' then return topic.err end
  if not topic then return NOT_FOUND end
  if redis.call('EXISTS', name) == 1 then return ALREADY_EXISTS end
  local renamed = redis.pcall('RENAME', letter, name)
  if renamed.err then return renamed.err end
  local refused = make_ready(topic, id)
  if refused then
    redis.call('RENAME', name, letter)
    return refused.err .. ' (ready queue ' .. queues .. topic .. ')'
  end
  redis.call('ZREM', pool, id) -- an entry that was without a job
  unlist(topic, id)
  redis.call('HDEL', name, 'lease', 'reason', 'died', 'error', 'first')
  local options = redis.call('HGET', name, 'options')
  if options then redis.call('HSET', name, 'options', (string.gsub(options, '^%+?(%d+ %d+) %d+', '%1 ' .. lifetime))) end
  redis.call('PEXPIRE', name, lifetime)
end

local reply = {}
for i = FIRST, #ARGV do
  local why = requeue(ARGV[i])
  if why then
    reply[#reply + 1], reply[#reply + 2] = i - FIRST + 1, why
  end
end
wake_all()
return reply
