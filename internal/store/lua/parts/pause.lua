-- require: keys time guard queue
-- Paused topics. What is ready of one is in paused_queue:<topic>, so that nobody finds anything in its ready queue, also those
-- who know nothing of this; and its waiters are in paused_waiting:<topic>. A hash in their place has whoever makes a
-- job ready set it aside, see wake.

-- An entry of the hash of paused topics: since when an operator has paused it, and until when, 0 if that is without end; since
-- when it is backed off, and until when (Unix ms); 0 if neither; and the operator's note. nil if it is no such entry.
local function read_pause(text)
  local since, ends, backed_off, backs_on, note = string.match(text, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
  if not since then return nil end
  return {since = tonumber(since), ends = tonumber(ends), backed_off = tonumber(backed_off), backs_on = tonumber(backs_on), note = note}
end

local function pause_text(p)
  return string.format('%.0f %.0f %.0f %.0f ', p.since, p.ends, p.backed_off, p.backs_on) .. p.note
end

-- Until when the topic is paused (Unix ms), huge if that is without end; not above now if it is over.
local function paused_until(p)
  if p.since > 0 and p.ends == 0 then return math.huge end
  return math.max(p.ends, p.backs_on)
end

-- Moves all entries of a list to another one, one by one, most of them at most.
local function empty_into(from, into, most, side, other)
  for _ = 1, most do
    if type(redis.pcall('LMOVE', from, into, side, other)) ~= 'string' then return end
  end
end

-- Has nothing of the topic be delivered. What somebody who doesn't know of the pause has put into the ready queue since is set aside,
-- most entries of it at most.
local function hold(topic, most)
  local queue, queue_aside, set = queues .. topic, paused_queues .. topic, waiters .. topic
  if redis.call('TYPE', set).ok == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  redis.pcall('HSET', set, 'paused', '1')
  if redis.pcall('EXISTS', queue) ~= 1 then return end
  if redis.call('EXISTS', queue_aside) == 0 then
    redis.pcall('RENAME', queue, queue_aside)
  else
    empty_into(queue, queue_aside, most, 'RIGHT', 'LEFT')
  end
end

-- Has the topic be delivered again, and wakes who waits longest.
local function release(topic)
  local queue, queue_aside, set = queues .. topic, paused_queues .. topic, waiters .. topic
  if redis.call('TYPE', set).ok == 'hash' then redis.pcall('DEL', set) end
  if redis.call('EXISTS', paused_waiters .. topic) == 1 then redis.pcall('RENAME', paused_waiters .. topic, set) end
  local ready, held = redis.pcall('LLEN', queue), redis.pcall('LLEN', queue_aside)
  if type(ready) ~= 'number' or type(held) ~= 'number' then return end -- a broken queue: the server names it
  if ready > 0 and ready <= held then
    empty_into(queue, queue_aside, ready, 'RIGHT', 'LEFT')
    redis.pcall('RENAME', queue_aside, queue)
  elseif ready > 0 then
    empty_into(queue_aside, queue, held, 'LEFT', 'RIGHT')
  elseif held > 0 then
    redis.pcall('RENAME', queue_aside, queue)
  end
  if ready + held > 0 then wake(topic, ready + held) end
end

-- What keeps this user from pausing topics, or from ending that.
local function not_pausable(topic)
  return not_writable() or not_permitted('HSET', pauses, 'a', '') or not_permitted('HDEL', pauses, 'a') or not_permitted('HSET', waiters, 'a', '')
    or not_permitted('DEL', waiters) or not_permitted('RENAME', queues, paused_queues) or not_permitted('RENAME', waiters, paused_waiters)
    or not_permitted('LMOVE', queues, paused_queues, 'RIGHT', 'LEFT') or not_permitted('TYPE', waiters)
end

-- Whether one of the keys is on its way to another node of the cluster.
-- cluster: local function pause_elsewhere(topic)
-- cluster:   return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(paused_queues .. topic) or elsewhere(waiters .. topic) or elsewhere(paused_waiters .. topic)
-- cluster: end
