-- Followers. A push with the policy 'follow' leaves a reserved job alone, and takes its place when that job is acked, buried or popped. Only
-- the latest such push counts. It is kept in two fields of the job's bucket, and marks the fields lease and options (see has_follower):
--   next       when it is due (Unix ms; 0: at once), how many bytes its topic has, its topic, and its options, if they are not the defaults
--   next_body  its body
--
-- Under the overlap 'follow' the jobs of a schedule never run at the same time, and one starts after each occurrence: if the last job is
-- reserved, the occurrence's job follows it under the same ID. If it is not reserved yet, it counts for this occurrence too, and keeps
-- its position: a push would move it to the end of its queue each time.
-- include: guard lease pool queue time topics

-- Stores the follower of a job: text is the job's lease, own its options. lifetime is that in the follower's options.
local function store_follower(name, text, own, topic, body, due, lifetime, options)
  local attempts, token, lent = read_lease(text)
  local left, needed = lifetime_left(redis.call('PTTL', name), token, lent), math.max(due - now, 0) + lifetime
  redis.call('HSET', name, 'next', string.format('%d %d ', due > begun and due or 0, #topic) .. topic .. options, 'next_body', body,
    'options', mark_follower(own or DEFAULT_OPTIONS))
  if left >= 0 and left < needed then -- the job is kept for longer, too
    redis.call('PEXPIRE', name, string.format('%d', needed))
    redis.call('HSET', name, 'lease', mark_follower(lease_text(attempts, token, 0, needed)))
  elseif not has_follower(text) then
    redis.call('HSET', name, 'lease', mark_follower(text))
  end
end

-- Why the follower of a job can't take its place, as an error reply, or nil: asked before the job ends. from is as in follow_up.
local function not_followable(id, from)
  local name = buckets .. id
  return not_permitted('TIME') or not_permitted('HMGET', from, 'next') or not_permitted('PTTL', from)
    or not_permitted('HDEL', from, 'next') or not_permitted('HSET', name, 'topic', '')
    or not_permitted('HDEL', name, 'lease') or not_permitted('PEXPIRE', name, '1') or not_permitted('DEL', name)
    or not_permitted('ZADD', pool, '0', '') or not_permitted('ZREM', pool, '')
end

-- Lets the follower take the place of its job, which is done. It is in the hash from: the job's bucket, or its dead letter.
local function follow_up(id, from)
  local name = buckets .. id
  local follower = redis.call('HMGET', from, 'next', 'next_body', 'lease')
  local due, length, rest = string.match(follower[1] or '', '^(%d+) (%d+) (.*)$')
  local _, _, _, expires = read_lease(follower[3])
  if not due or pushed_again(redis.call('PTTL', from), expires) then -- a client without followers has pushed it again
    redis.call('DEL', name)
    redis.call('ZREM', pool, id)
    return
  end
  due = tonumber(due)
  length = tonumber(length)
  local topic, options = string.sub(rest, 1, length), string.sub(rest, length + 1)
  local _, _, lifetime = read_options(options)
  redis.call('HSET', name, 'topic', topic, 'body', follower[2] or '', 'options', options)
  redis.call('HDEL', name, 'lease', 'error', 'first', 'next', 'next_body', options == '' and 'options' or 'error')
  if from ~= name then redis.call('HDEL', from, 'next', 'next_body') end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  local waiting = due <= begun and redis.pcall('LPUSH', queues .. topic, id)
  if type(waiting) == 'number' then
    redis.call('ZREM', pool, id)
    wake(topic, waiting)
  else -- the server reports why the queue refuses it
    redis.call('ZADD', pool, score_of(math.max(due, now)), id)
    announce(score_of(math.max(due, now)), math.max(due - now, 0))
  end
  register_push(topic, now / 1000, due / 1000)
end

-- The text of the last job's lease; nil if that job is done or not reserved. An error reply if it can't have a follower.
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_again(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end

-- Lets an occurrence's job follow the last one, whose lease has this text. Returns the new text, and whether this is its first follower.
local function follow_last(last, lease, topic, content, options, due)
  local own = redis.call('HMGET', buckets .. last, 'options')[1]
  local _, _, lifetime = read_options(options)
  store_follower(buckets .. last, lease, own, topic, content, due, lifetime, options ~= DEFAULT_OPTIONS and options or '')
  return mark_follower(lease), not has_follower(lease)
end
