-- due: finds the jobs to move next, by topic. If they are few it moves them itself; else it changes nothing.
local function stopwatch()
  local os = rawget(_G, 'os')
  if os then
    local start = os.clock()
    return function() return math.floor((os.clock() - start) * 1000000) end
  end
  local start = redis.call('TIME')
  return function()
    local stop = redis.call('TIME')
    return (stop[1] - start[1]) * 1000000 + stop[2] - start[2]
  end
end
local time = redis.call('TIME')
local pool = KEYS[1]
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local SCHEDULE_TOPIC = 'delayer:schedules'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
local MAX_BYTES = 524288
local FIRST_PAGE, LAST_PAGE = 16, 256 -- IDs read at a time, which may be large

local stop = stopwatch()
local at = time[1] .. '.' .. string.format('%06d', time[2])
local due = redis.pcall('ZCOUNT', pool, '-inf', at)
if type(due) == 'table' then
  return redis.error_reply(due.err .. ' (job pool ' .. pool .. ')')
end
local err = not_writable()
if err then return err end

local wait = -1
local next = redis.call('ZRANGE', pool, due, due, 'WITHSCORES')
if next[2] then
  wait = math.min(math.ceil((tonumber(next[2]) - tonumber(at)) * 1000000), 3600000000)
end

if due == 0 then return {stop(), at, 0, wait, {}, {0}, {0}, {}} end

local orphans, some_jobs = {}, false

-- The jobs at up to count ranks of the pool, from first on.
local function jobs_at(first, count)
  local found, of_topic = {0}, {}
  local call, prefix = redis.pcall, buckets
  local n, bytes, page = 0, 0, FIRST_PAGE
  while n < count and bytes < MAX_BYTES do
    local ids = redis.call('ZRANGE', pool, first + n, first + math.min(n + page, count) - 1)
    page = math.min(4 * page, LAST_PAGE)
    local read = #ids
    for i = 1, read do
      local id = ids[i]
      local topic = call('HGET', prefix .. id, 'topic')
      local of_same = of_topic[topic]
      if of_same then
        of_same[#of_same + 1] = id
      elseif type(topic) == 'string' then
        of_same = {id}
        of_topic[topic] = of_same
        found[#found + 1], found[#found + 2] = topic, of_same
        some_jobs = some_jobs or topic ~= SCHEDULE_TOPIC
      else
        if unreadable(topic) then err = err or all_unreadable() end
        orphans[#orphans + 1] = id
      end
      bytes = bytes + #id
      if bytes >= MAX_BYTES then
        read = i
        break
      end
    end
    n = n + read
  end
  found[1] = n
  return found
end

local limit, skip_backlog, skip_fresh = tonumber(ARGV[1]), tonumber(ARGV[3]), tonumber(ARGV[4])
local backlog = due
if ARGV[2] ~= '' then backlog = math.min(redis.call('ZCOUNT', pool, '-inf', ARGV[2]), due) end
local backlog_left = math.max(backlog - skip_backlog, 0)
local fresh_left = math.max(due - backlog - skip_fresh, 0)
local of_fresh = math.min(fresh_left, math.max(math.ceil(limit / 2), limit - backlog_left))
local of_backlog = math.min(backlog_left, limit - of_fresh)

local fresh_jobs = jobs_at(backlog + skip_fresh, of_fresh)
local backlog_jobs = jobs_at(skip_backlog, of_backlog)
if err then return err end

if due > tonumber(ARGV[5] or 0) or backlog_jobs[1] < due or #orphans > 0 or not some_jobs then
  return {stop(), at, due, wait, orphans, fresh_jobs, backlog_jobs, {}}
end
local FIRST = 5
local TIMED = 64
local queues = prefix .. 'ready_queue:'
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local CHUNK = 3500
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
local reserved_counts = prefix .. 'reserved'
local HAS_SLOTS = 1649267441664
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local function count_reserved(by_topic, ids)
  for topic, change in pairs(by_topic) do
    local count = redis.pcall('HINCRBY', reserved_counts, topic, change)
    if type(count) ~= 'number' then
    elseif count <= 0 then
      redis.pcall('HDEL', reserved_counts, topic)
    elseif count >= HAS_SLOTS and change < 0 then
      local slots = prefix .. 'slots:'
      local throttled_waiters = prefix .. 'throttled_waiters:'
      local waiters = prefix .. 'waiters:'
      local wake_channels = prefix .. 'wake:'
      local function wake_throttled(topic)
        if redis.pcall('EXISTS', throttled_waiters .. topic, waiters .. topic) == 0 then return nil end
        local jobs = redis.pcall('LLEN', queues .. topic)
        if jobs == 0 then
          local paused_waiters = prefix .. 'paused_waiters:'
          local WAITING_FOR = 3600000
          local function end_throttling(topic)
            local all, waiting = redis.pcall('ZPOPMIN', throttled_waiters .. topic, 1000), waiters .. topic
            if all[1] and redis.pcall('TYPE', waiting).ok == 'hash' then waiting = paused_waiters .. topic end
            for i = 1, #all, 2 do redis.pcall('ZADD', waiting, 'NX', all[i + 1], all[i]) end
            if all[1] then redis.pcall('PEXPIRE', waiting, WAITING_FOR) end
          end
          end_throttling(topic)
        end
        while type(jobs) == 'number' and jobs > 0 and waking_left > 0 do
          local first = redis.pcall('ZPOPMIN', throttled_waiters .. topic)
          if not first[1] then
            local function wake(topic, jobs, made_ready)
              while waking_left > 0 do
                local first = redis.pcall('ZPOPMIN', waiters .. topic)
                if not first[1] then
                  if not first.err then return false end
                  local parked_queues = prefix .. 'paused_queue:'
                  local pauses = prefix .. 'paused'
                  local function is_parked(topic, reply)
                    return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
                  end
                  if not is_parked(topic, first) then return false, first.err end
                  local queue, parked = queues .. topic, parked_queues .. topic
                  for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
                    waking_left = waking_left - 1
                    local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
                    if type(id) ~= 'string' then break end
                  end
                  return false
                end
                local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
                if type(receivers) == 'table' then return false, receivers.err end
                if receivers > 0 then return true end
                waking_left = waking_left - DEAD_COST
              end
              return false
            end
            return wake(topic, jobs)
          end
          local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
          if receivers ~= 0 then return type(receivers) == 'number' end
          waking_left = waking_left - DEAD_COST
        end
        return false
      end
      if ids then redis.pcall('ZREM', slots .. topic, unpack(ids)) end
      wake_throttled(topic)
    end
  end
end
local known_topics = prefix .. 'topics'
local USED_EACH = 60
local function used_at(seconds)
  return string.format('%d', seconds - seconds % USED_EACH)
end
local SOON = 1800
local topics_due = prefix .. 'topics_due'
local function register_use(topic, seconds, due)
  redis.pcall('ZADD', known_topics, 'GT', used_at(seconds), topic)
  if due - seconds > SOON then redis.pcall('ZADD', topics_due, 'GT', string.format('%d', due - due % SOON + 2 * SOON), topic) end
end
local waiters = prefix .. 'waiters:'
local wake_channels = prefix .. 'wake:'
local function wake(topic, jobs, made_ready)
  while waking_left > 0 do
    local first = redis.pcall('ZPOPMIN', waiters .. topic)
    if not first[1] then
      if not first.err then return false end
      local parked_queues = prefix .. 'paused_queue:'
      local pauses = prefix .. 'paused'
      local function is_parked(topic, reply)
        return reply.err and string.find(reply.err, 'WRONGTYPE', 1, true) and redis.pcall('HMGET', pauses, topic)[1]
      end
      if not is_parked(topic, first) then return false, first.err end
      local queue, parked = queues .. topic, parked_queues .. topic
      for _ = 1, math.min(jobs, math.max(made_ready or 0, waking_left)) do
        waking_left = waking_left - 1
        local id = redis.pcall('LMOVE', queue, parked, 'RIGHT', 'LEFT')
        if type(id) ~= 'string' then break end
      end
      return false
    end
    local receivers = redis.pcall('PUBLISH', wake_channels .. first[1], string.format('%d ', jobs) .. topic)
    if type(receivers) == 'table' then return false, receivers.err end
    if receivers > 0 then return true end
    waking_left = waking_left - DEAD_COST
  end
  return false
end
local MOST_LATE = 1e12
local function move(args)
  local stop = #args >= FIRST + TIMED - 1 and stopwatch()
  local topic, found_at = args[1], tonumber(args[2])
  local queue = queues .. topic
  local IN_CLUSTER = false
  if IN_CLUSTER then
    local function elsewhere(key)
      local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
      return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
    end
    local err = elsewhere(queue)
    if err then return err end
  end
  local put_back, why = 0, ''
  local left = {}
  local length
  local ended, returned, late = 0, 0, 0
  local counts, n = nil, 0
  local moved_at = found_at + args[3] / 1000000
  --
  local function examine(scores, n)
    local leases, sum = 0, 0
    local several = #args > FIRST
    local bounds
    if several then
      local LATENESS_BOUNDS = {0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 60, 600, 3600, 1 / 0}
      bounds = LATENESS_BOUNDS
    end
    local ends, bucket, first = several and 1 / 0 or -1
    for i = 1, #scores do
      local score = scores[i]
      if not score then return nil end
      score = score + 0
      if score > found_at then return nil end
      local part = score * 1000 % 1
      if part > 0.0005 and is_lease(score) then leases = leases + 1 end
      local behind = moved_at - score
      sum = sum + behind
      if behind <= ends then
        if bucket then
          counts, n = counts or {0, 0, 0, 0}, n + 1
          counts[n] = 32 * (i - first) + bucket
        end
        first, bucket = i, 1
        while behind > bounds[bucket] do bucket = bucket + 1 end
        ends = bounds[bucket - 1] or -1
      end
    end
    if bucket and (n > 0 or #args - FIRST >= CHUNK) then
      counts, n = counts or {0, 0, 0, 0}, n + 1
      counts[n] = 32 * (#scores - first + 1) + bucket
    end
    return leases, sum, n
  end
  local function select_due(first, last, scores, found_at, left)
    local due, due_scores, seen = {}, {}, {}
    for i = first, last do
      local id, score = args[i], scores[i - first + 1]
      if not score or score - found_at > 0 or seen[id] then
        left[#left + 1] = i - FIRST + 1
      else
        due[#due + 1], due_scores[#due + 1], seen[id] = id, score, true
      end
    end
    return due, due_scores
  end
  for first = FIRST, #args, CHUNK do
    local last = math.min(first + CHUNK - 1, #args)
    local scores = redis.call('ZMSCORE', pool, unpack(args, first, last))
    local ids, from, to = args, first, last
    local leases, sum, counted = examine(scores, n)
    local removed = leases and redis.call('ZREM', pool, unpack(args, first, last))
    if removed ~= to - from + 1 then
      ids, scores = select_due(first, last, scores, found_at, left)
      from, to = 1, #ids
      if not removed and to > 0 then redis.call('ZREM', pool, unpack(ids)) end
      leases, sum, counted = examine(scores, n)
    end
    ended = ended + leases
    if to >= from then
      local pushed = redis.pcall('LPUSH', queue, unpack(ids, from, to))
      if type(pushed) == 'number' then
        length = pushed
        returned, late, n = returned + leases, late + sum, counted
      else
        local entries = {}
        for i = from, to do
          entries[#entries + 1], entries[#entries + 2] = retry_score(args[4], put_back), ids[i]
          put_back = put_back + 1
        end
        redis.call('ZADD', pool, unpack(entries))
        why = pushed.err .. ' (ready queue ' .. queue .. ')'
      end
    end
  end
  if ended > 0 then count_reserved({[topic] = -ended}) end
  if length then
    register_use(topic, moved_at, moved_at)
    local woken, cant_publish = wake(topic, length, #args - FIRST + 1)
    if put_back == 0 then why = cant_publish or woken and 'woken' or '' end
  end
  if late > MOST_LATE then late = MOST_LATE end
  local reply
  if returned > 0 or n > 0 then
    reply = {0, put_back, why, late * 1000000, 1 + n, returned, unpack(counts or {}, 1, n)}
  else
    reply = {0, put_back, why, late * 1000000, 0}
  end
  for i = 1, #left do reply[#reply + 1] = left[i] end
  if stop then reply[1] = stop() end
  return reply
end
local IN_CLUSTER = false
if IN_CLUSTER then
  local function elsewhere(key)
    local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
    return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
  end
  for i = 2, #backlog_jobs, 2 do
    err = backlog_jobs[i] ~= SCHEDULE_TOPIC and elsewhere(queues .. backlog_jobs[i])
    if err then return err end
  end
end
local moved = {}
for i = 2, #backlog_jobs, 2 do
  local topic = backlog_jobs[i]
  moved[#moved + 1] = topic == SCHEDULE_TOPIC and {} or move({topic, at, 0, ARGV[6], unpack(backlog_jobs[i + 1])})
end
return {stop(), at, due, wait, orphans, fresh_jobs, backlog_jobs, moved}
