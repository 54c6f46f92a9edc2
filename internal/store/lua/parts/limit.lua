-- require: keys time lease held
-- Limits of topics: how many jobs are reserved at a time, and how many a second begin to be.
--
-- What limits a topic is a field of the hash of limits: a text, see read_limit. Each of its reserved jobs has a slot, if it limits how
-- many these are: an entry of a zset of the topic, scored as in the pool. The pool decides: a slot whose lease would have ended is free
-- unless the pool says that it was extended.
--
-- How many begin is counted by when the next one may, as if they came evenly: so one number says all. That may lie in the past, by
-- as much as what was late is made up for, or a burst takes.

-- The number of a topic's reserved jobs that is kept is raised by that if there is a limit. So all who take or end a lease learn of it
-- from what they do anyway, and topics without one cost nothing.
local LIMITED = 2 ^ 40

local MADE_UP_FOR = 250000 -- µs
local PLACES = 1000        -- slots that one call looks at, of leases that seem to be over,
local LOOKED_AT = 200      -- and of others

-- The limit of a topic; nil if it has none, and an error reply if that can't be told:
--   concurrency  how many are reserved at a time, -1 for any number
--   interval     between two that begin, in µs, 0 for none
--   burst        how many may begin at once
--   next         when (Unix µs) the next one may begin
--   appointed    when (Unix µs) the last of those comes back who were told when to
--   whole        what was set, of all partitions: see Limit in Go
local function read_limit(topic)
  local text = redis.pcall('HGET', limits, topic)
  if type(text) == 'table' then return nil, text end
  if not text then return nil end
  local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  if not tonumber(interval) then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
  return {
    concurrency = tonumber(concurrency), interval = tonumber(interval), burst = tonumber(burst),
    next = tonumber(next), appointed = tonumber(appointed), whole = whole,
  }
end

local function write_limit(topic, l)
  local text = string.format('%d %.17g %d %.0f %.0f %s', l.concurrency, l.interval, l.burst, l.next, l.appointed, l.whole)
  return redis.pcall('HSET', limits, topic, text)
end

-- Those of some slots whose jobs have no lease at that time (Unix s), or an error reply; and with changes, those that were extended are
-- scored anew.
local function free_among(set, ids, at, changes)
  local free = {}
  if #ids == 0 then return free end
  local scores = redis.pcall('ZMSCORE', pool, unpack(ids))
  if scores.err then return scores end
  for i, id in ipairs(ids) do
    local score = scores[i] and tonumber(scores[i])
    if not score or score <= at or not is_lease(score) then
      free[#free + 1] = id
    elseif changes then
      redis.pcall('ZADD', set, scores[i], id)
    end
  end
  return free
end

-- How many slots of the topic are taken at that time (Unix s), or an error reply. Those whose leases have ended are free. With most it need
-- be right only above that: if there are no more, nobody looks which are free. Else, if there are more without those whose leases have ended,
-- some of the others are looked at, too: who knows nothing of slots may have ended their leases. What is free is forgotten then.
local function count_slots(topic, at, most)
  local set = slots .. topic
  local all = redis.pcall('ZCOUNT', set, '-inf', '+inf')
  if type(all) == 'table' or most and all <= most then return all end
  local past = redis.pcall('ZRANGE', set, '-inf', string.format('%.6f', at), 'BYSCORE', 'LIMIT', 0, PLACES)
  if past.err then return past end
  local free = free_among(set, past, at, most)
  if free.err then return free end
  if not most then return all - #free end
  if all - #free > most then
    local first = redis.pcall('ZRANGE', set, 0, LOOKED_AT - 1)
    free = first.err and first or free_among(set, first, at)
    if free.err then return free end
  end
  if #free > 0 then redis.pcall('ZREM', set, unpack(free)) end
  return all - #free
end

-- The limit of a topic whose jobs are to be reserved, as read_limit, and:
--   free   how many slots are, math.huge for any number
--   since  since when (Unix µs), as if they came evenly, jobs may begin
--   most   how many of the n that are wanted may be reserved now
--   slots  where they are to be entered, nil if they need none
local function open_limit(topic, n)
  local l, err = read_limit(topic)
  if not l then return nil, err end
  local begin = math.huge
  l.free, l.since, l.wanted = math.huge, 0, n
  if l.interval > 0 then
    l.next = math.min(l.next, now_us + l.interval) -- the clock may have been put back
    l.since = math.max(l.next, now_us - (l.burst - 1) * l.interval - MADE_UP_FOR)
    begin = math.max(math.floor((now_us - l.since) / l.interval) + 1, 0)
  end
  if l.concurrency >= 0 then
    err = not_permitted('ZRANGE', slots .. topic, '0', '0') -- who needs it only at the limit is told before
    if err then return nil, err end
    local taken = count_slots(topic, now_s, l.concurrency - n)
    if type(taken) == 'table' then return nil, taken end
    l.free, l.slots = math.max(l.concurrency - taken, 0), slots .. topic
  end
  l.open = math.min(l.free, begin)
  l.most = math.min(n, l.open)
  return l
end

-- Ends what open_limit has begun: so many jobs are reserved. waits says that there is a waiter. Returns what gate does, see take_all.
-- Those who have to wait as too many begin come back one after the other. Who would be away for long is woken, too: the limit may be
-- changed meanwhile. Entries without a job may have kept the reserve from taking all that it might; then it goes on.
local APART, LONGEST = 5000, 5000000 -- µs; between two of them, and for how long one stays away if there are others
local function close_limit(topic, l, taken, waits)
  local held, among
  if l.most < l.wanted and taken >= l.most then held = l.free <= l.most and -1 or 0 end
  if held == -1 then among = held_back end
  if l.interval > 0 and (taken > 0 or held == 0) then
    if taken > 0 then l.next = l.since + taken * l.interval end
    local at = math.max(l.next, now_us)
    if held == 0 and waits then
      at = math.max(at, math.min(l.appointed + math.max(l.interval, APART), now_us + LONGEST))
      l.appointed = at
    end
    if held == 0 then
      held = math.max(math.ceil((at - now_us) / 1000), 1)
      if l.next - now_us > LONGEST then among = held_back end
    end
    write_limit(topic, l)
  end
  if held then return held, nil, among end
  return nil, l.open <= taken or let_go_on(topic)
end
