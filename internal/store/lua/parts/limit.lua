-- Limits of topics: how many jobs are reserved at a time, and how many start per second. A limit is a text in the hash of limits: see
-- parse_limit. A limit on concurrency gives each reserved job a slot: see parts/slots.lua. A rate is kept as one number, when the next
-- job may start, as if jobs started evenly. It may be in the past by the burst, or by MADE_UP_FOR without one.
-- include: throttle time

-- A topic's limit marks the number of its reserved jobs: see Encodings in docs/wire-format.md. The first function returns the mark; the
-- second the number without the mark, and the mark.
local function raise_for(concurrency) return concurrency >= 0 and 2 * LIMIT_MARK or LIMIT_MARK end
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK -- the number may be below 0
  return kept - raised, raised
end

local MADE_UP_FOR = 250000 -- µs

-- The fields of the text; nil without a limit, and an error reply if it can't be read:
--   concurrency  how many are reserved at a time; -1 for any number
--   interval     between two starts (µs); 0 for none
--   burst        how many may start at once; 0 for what MADE_UP_FOR allows
--   next         when the next one may start (Unix µs)
--   appointed    the latest time given to a client for its next poll (Unix µs)
--   whole        the limit of all partitions, as it was set: see Limit in Go
local function parse_limit(topic, text)
  if not text then return nil end
  if type(text) == 'table' then return nil, text end
  local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
  interval = tonumber(interval)
  if not interval then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
  return tonumber(concurrency), interval, tonumber(burst), tonumber(next), tonumber(appointed), whole
end
local function read_limit(topic) return parse_limit(topic, redis.pcall('HGET', limits, topic)) end

local function write_limit(topic, concurrency, interval, burst, next, appointed, whole)
  local text = string.format('%d %.17g %d %.0f %.0f ', concurrency, interval, burst, next, appointed) .. whole
  return redis.pcall('HSET', limits, topic, text)
end

-- How many of n jobs of the topic may be reserved now; a function to call when they are; and where to add their slots, nil if they need none.
-- Without a limit, only n; if it can't be read, 0 and, fourth, an error reply. waits says that there is a waiter.
--
-- The function takes how many were reserved, and returns what gate does: see take_all. If the rate is exceeded, waiters poll again one after
-- the other. One that would be away for long is woken too, since the limit may change meanwhile. If entries without a job kept the
-- reserve below what it may take, it goes on.
local APART, LONGEST = 5000, 5000000 -- µs; between two polls, and how long a client stays away if there are others
local function open_limit(topic, n, waits)
  local text = redis.pcall('HGET', limits, topic)
  local only = type(text) == 'string' and string.match(text, '^(%d+) 0 ')
  local concurrency, interval, burst, next, appointed, whole = only and tonumber(only), 0
  if not only then -- more than a limit on concurrency, or none
    concurrency, interval, burst, next, appointed, whole = parse_limit(topic, text)
    if not concurrency then return interval and 0 or n, nil, nil, interval end
  end
  local begin, since, free, set = math.huge, 0, math.huge, nil
  if interval > 0 then
    next = math.min(next, now_us + interval) -- the clock may have been set back
    local early = burst > 0 and (burst - 1) * interval + 0.5 or MADE_UP_FOR -- half a µs, as the quotient below may be rounded
    since = math.max(next, now_us - early) -- since when jobs may begin, as if they came evenly
    begin = math.max(math.floor((now_us - since) / interval) + 1, 0)
  end
  if concurrency >= 0 then
    set = slots .. topic
    local last = concurrency - n - 1 -- if no slot is at that position, more than n are free
    local some = last >= 0 and redis.pcall('ZRANGE', set, last, last)
    if not some or #some > 0 or some.err then
      -- include: guard: not_permitted; slots: count_slots
      local err = some and some.err and some or not_permitted('ZRANGE', set, '0', '0') -- checks in advance a permission that only the limit needs
      local taken = err or count_slots(topic, now_us, concurrency - n)
      if type(taken) == 'table' then return 0, nil, nil, taken end
      free = math.max(concurrency - taken, 0)
    end
  end
  local open = math.min(free, begin)
  local most = math.min(n, open)

  local function close(taken)
    local poll_in, among
    if most < n and taken >= most then poll_in = free <= most and -1 or 0 end
    if poll_in == -1 then among = throttled_waiters end
    if interval > 0 and (taken > 0 or poll_in == 0) then
      next = since + taken * interval
      local at = math.max(next, now_us)
      if poll_in == 0 and waits then
        at = math.max(at, math.min(appointed + math.max(interval, APART), now_us + LONGEST))
        appointed = at
      end
      if poll_in == 0 then
        poll_in = math.max(math.ceil((at - now_us) / 1000), 1)
        if next - now_us > LONGEST then among = throttled_waiters end
      end
      write_limit(topic, concurrency, interval, burst, next, appointed, whole)
    end
    if poll_in then return poll_in, nil, among end
    return nil, open <= taken or wake_throttled(topic) ~= false
  end
  return most, close, set
end
