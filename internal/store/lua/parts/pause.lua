-- Paused topics. What is ready of one is in paused_queue:<topic>, so that nobody finds anything in its ready queue, also those
-- who know nothing of this; and its waiters are in paused_waiting:<topic>. A hash in their place has whoever makes a
-- job ready set it aside, see wake.

-- Whether the topic is paused, by what Redis answers to a command on the set of its waiters: while it is, a hash stands in the
-- place of that. See Encodings in docs/wire-format.md.
-- include: keys: pauses
local function is_parked(topic, reply)
  return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
end

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

-- Sets aside what is in the ready queue of a paused topic, the next to be delivered first, most entries at most. Returns how many it moved,
-- and whether there are more; or nil and an error reply.
-- include: keys: queues paused_queues
local function set_ready_aside(topic, most)
  local queue, queue_aside = queues .. topic, paused_queues .. topic
  local ready = redis.pcall('LLEN', queue)
  if type(ready) ~= 'number' or ready == 0 then return 0, false end -- a broken queue: the server names it
  if redis.call('EXISTS', queue_aside) == 0 then
    redis.pcall('RENAME', queue, queue_aside)
    return 1, false
  end
  local count = math.min(ready, most)
  for _ = 1, count do
    local moved = redis.pcall('LMOVE', queue, queue_aside, 'RIGHT', 'LEFT')
    if type(moved) ~= 'string' then return nil, moved or nil end
  end
  return count, ready > count
end

-- Keeps everything of the topic from being delivered. What somebody who doesn't know of the pause has put into the ready queue since is set
-- aside, most entries of it at most. Returns what set_ready_aside does.
-- include: set_ready_aside; keys: waiters paused_waiters
local function hold(topic, most)
  local set = waiters .. topic
  local kind = redis.call('TYPE', set).ok
  if kind == 'zset' then redis.pcall('RENAME', set, paused_waiters .. topic) end
  if kind ~= 'hash' then redis.pcall('HSET', set, 'paused', '1') end
  return set_ready_aside(topic, most)
end

-- Ends the topic's pause, and wakes who waits longest, once all of its ready jobs stand in one queue. If there are more than most both in the
-- ready queue and aside, that many are set aside, and the topic stays paused: so the order is kept. Returns how many were moved, and
-- whether there are more; or nil and an error reply.
-- include: set_ready_aside; keys: queues waiters pauses paused_queues paused_waiters; queue: wake
local function release(topic, most)
  local queue, queue_aside, set = queues .. topic, paused_queues .. topic, waiters .. topic
  local ready, held, moved = redis.pcall('LLEN', queue), redis.pcall('LLEN', queue_aside), 0
  local is_broken = type(ready) ~= 'number' or type(held) ~= 'number' -- the server names it
  if not is_broken and held > 0 then
    if held <= most and held < ready then
      for _ = 1, held do
        local entry = redis.pcall('LMOVE', queue_aside, queue, 'LEFT', 'RIGHT')
        if type(entry) ~= 'string' then return nil, entry or nil end
      end
      moved = held
    else
      local more
      moved, more = set_ready_aside(topic, most)
      if not moved or more then return moved, more end
      redis.pcall('RENAME', queue_aside, queue)
    end
  end
  redis.call('HDEL', pauses, topic)
  if redis.call('TYPE', set).ok == 'hash' then redis.pcall('DEL', set) end
  if redis.call('EXISTS', paused_waiters .. topic) == 1 then redis.pcall('RENAME', paused_waiters .. topic, set) end
  if not is_broken and ready + held > 0 then wake(topic, ready + held) end
  return moved, false
end

-- What keeps this user from pausing topics, or from ending that.
-- include: keys: queues waiters pauses paused_queues paused_waiters; guard: not_permitted not_writable
local function not_pausable(topic)
  return not_writable() or not_permitted('HSET', pauses, 'a', '') or not_permitted('HDEL', pauses, 'a') or not_permitted('HSET', waiters, 'a', '')
    or not_permitted('DEL', waiters) or not_permitted('RENAME', queues, paused_queues) or not_permitted('RENAME', waiters, paused_waiters)
    or not_permitted('LMOVE', queues, paused_queues, 'RIGHT', 'LEFT') or not_permitted('TYPE', waiters)
end

-- Whether one of the keys is on its way to another node of the cluster.
-- cluster: -- include: keys: queues waiters pauses paused_queues paused_waiters; guard: elsewhere
-- cluster: local function pause_elsewhere(topic)
-- cluster:   return elsewhere(pauses) or elsewhere(queues .. topic) or elsewhere(paused_queues .. topic) or elsewhere(waiters .. topic) or elsewhere(paused_waiters .. topic)
-- cluster: end
