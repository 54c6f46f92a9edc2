-- restore: stores jobs, dead letters, schedules and what Once remembers, as another installation has exported them. What exists is skipped.
--
-- KEYS[1] job pool
-- ARGV[1] 'look': changes nothing; else ''
-- ARGV[2…] of each entry: kind, ID, time, how long it is kept (ms; negative for ever), how long its group is open (ms; 0: it is no open group),
--   how many values follow, and the fields and values of its hash. The kinds and their times: 'waiting', when it is due (Unix ms); 'ready', 0;
--   'dead', when it was buried (Unix ms); 'schedule', when it is fired (Unix ms), 0 for never; 'once', until when (Unix ms)
-- Returns 1 for each entry that did not exist, else 0. Errors: WRONGTYPE of the pool, OOM, NOPERM, READONLY. Nothing has changed then.
-- Atomic because a job must be whole, and in one state. Cost: O(log n) of the pool for each entry.
-- include: guard lease policy pool queue schedule time topics cluster
local FIRST, CHUNK = 2, 1000 -- unpack fails near 8,000
local looks = ARGV[1] == LOOK
local reply, first_due = {}, math.huge
local err = not looks and (not_writable() or not_permitted('HSET', buckets, 'topic', '') or not_permitted('PEXPIRE', buckets, '1')
  or not_permitted('HSET', dead_letters, 'topic', '') or not_permitted('ZADD', dead_lists, '0', '') or not_permitted('ZADD', schedules, '0', '')
  or not_permitted('HGET', buckets, 'topic') or not_permitted('ZSCORE', once, '') or not_permitted('PTTL', once)
  or not_permitted('ZADD', once, '0', '') or not_permitted('HSET', groups, 'id', '')
  or not_permitted('HSET', once_contents, 'of', '') or elsewhere(buckets))
if err then return err end

local function keep(name, ttl, first, last)
  for some = first, last, CHUNK do redis.call('HSET', name, unpack(ARGV, some, math.min(some + CHUNK - 1, last))) end
  if ttl >= 0 then redis.call('PEXPIRE', name, string.format('%d', math.max(ttl, 1))) end
end

-- Ends the lease in the bucket, if there is one: the attempts and the last token stay.
local function end_lease(name, ttl)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local attempts, token = read_lease(text)
  redis.call('HSET', name, 'lease', keep_follower(text, lease_text(attempts, token, 0, ttl)))
end

local function wait(id, at)
  redis.call('ZADD', pool, score_of(at), id)
  if at > now then first_due = math.min(first_due, at) end
end

local i = FIRST
while i <= #ARGV do
  local kind, id, at, ttl, group, n = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3]), tonumber(ARGV[i + 4]), tonumber(ARGV[i + 5])
  local name = (kind == DEAD and dead_letters or kind == ONCE and once_contents or buckets) .. id
  local first, last = i + 6, i + 5 + n
  i = last + 1
  local is_new
  if kind == ONCE then
    is_new = at > now and not redis.call('ZSCORE', once, id)
  else
    is_new = redis.call('EXISTS', name) == 0
  end
  reply[#reply + 1] = is_new and 1 or 0
  if is_new and not looks then
    keep(name, kind == ONCE and at - now or ttl, first, last)
    local topic = kind ~= ONCE and redis.call('HGET', name, 'topic')
    if kind == ONCE then
      redis.call('ZADD', once, string.format('%d', at), id)
      keep_once(at - now)
    elseif kind == SCHEDULE then
      redis.call('ZADD', schedules, 0, schedule_name(id) or id)
      if at > 0 then wait(id, at) end
    elseif kind == DEAD then
      redis.call('ZADD', dead_lists .. topic, string.format('%d', at), id)
      redis.pcall('ZADD', dead_topics, 'LT', string.format('%d', at), topic)
      register_push(topic, now / 1000, now / 1000)
    else
      end_lease(name, ttl)
      if kind == WAITING or make_ready(topic, id) then wait(id, kind == WAITING and at or now) end
      register_push(topic, now / 1000, kind == WAITING and at / 1000 or now / 1000)
      if group > 0 then
        local open = groups .. string.match(id, '^{[^}]*}')
        redis.call('HSET', open, 'id', id)
        redis.call('PEXPIRE', open, string.format('%d', group))
      end
    end
  end
end
wake_all()
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
return reply
