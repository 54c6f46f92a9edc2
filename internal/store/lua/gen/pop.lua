-- pop: takes the next ready jobs of some topics. They leave Redis; a job's follower takes its place.
local pcall = redis.pcall
local stale, found_stale, some_bytes, queue_error = {}, {}, false, nil
local wanted, entries_left, bytes_left = tonumber(ARGV[1]), 1000, 1024 * 1024
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local function take(queue, topic, count, most, read, wants, claim, gate)
  local ids = pcall('LRANGE', queue, -count, -1)
  if ids.err then
    local protected = rawget(_G, 'pcall')
    local function not_permitted(command, ...)
      if not redis.acl_check_cmd then return nil end
      local is_known, may = protected(redis.acl_check_cmd, command, ...)
      if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
      if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
    end
    local function not_a_list(queue, is_caught)
      local kind = redis.pcall('TYPE', queue)
      if kind.ok == 'none' or kind.ok == 'list' then return nil end
      if kind.err then return not_permitted('TYPE', queue) or is_caught and kind or redis.call('TYPE', queue) end
      return redis.error_reply('WRONGTYPE ready queue ' .. queue .. ' is a ' .. kind.ok .. ', not a list')
    end
    local function unreadable(reply)
      return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
    end
    queue_error = not unreadable(ids) and not_a_list(queue) or ids
    return 0, queue_error
  end
  if #ids == 0 then return 0 end
  local denied = pcall('RPOP', queue, 0)
  if type(denied) == 'table' and denied.err then return denied end
  if gate then
    local err
    most, err = gate(topic, math.min(most, #ids))
    if err then
      queue_error = err
      return 0, err
    end
    if most == 0 then return 0 end
  end
  local waits = pcall('ZMSCORE', pool, unpack(ids))
  if waits.err then
    local function unreadable(reply)
      return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
    end
    if unreadable(waits) then return waits end
  end
  local jobs, names, misrouted, followed = {}, {}, nil, nil
  local n, first = 0, #ids + 1
  for i = #ids, 1, -1 do
    if n == most or bytes_left <= 0 then break end
    local id = ids[i]
    local name = buckets .. id
    local job = read and read(name) or pcall('HMGET', name, 'topic', 'body', 'options')
    local owner = job[1]
    if owner == topic and not waits[i] then
      local body = job[2] or ''
      local size = #id + #body
      if size > bytes_left and some_bytes then
        bytes_left = 0
        break
      end
      if not wants or wants(id, name, job) then
        bytes_left, some_bytes = bytes_left - size, true
        jobs[2 * n + 1] = id
        jobs[2 * n + 2] = body
        n = n + 1
        names[n] = name
        if job[3] then
          local FOLLOWER_BYTE = 43
          local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
          local DEFAULT_LIFETIME = 604800000
          local function read_options(text)
            if not text then return 0, 0, DEFAULT_LIFETIME, '' end
            local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
            return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
          end
          if has_follower(job[3]) then
            followed = followed or {}
            followed[n] = true
          end
          local _, _, _, headers = read_options(job[3])
          if headers ~= '' then jobs[2 * n] = {body, headers} end
        end
      end
    elseif not owner then
      if job.err then
        local function unreadable(reply)
          return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
        end
        if unreadable(job) then return job end
      end
      bytes_left, some_bytes = bytes_left - #id, true
      found_stale[#found_stale + 1] = id
    elseif not waits[i] then
      misrouted = misrouted or {}
      misrouted[#misrouted + 1] = {id, owner}
    end
    first = i
  end
  local used = #ids + 1 - first
  if used == 0 then return 0 end
  if misrouted then
    local function not_writable()
      local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
      if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
    end
    denied = not_writable()
    if denied then return denied end
  end
  local refused, leases
  refused, jobs, leases = claim(jobs, names, n, topic, followed)
  if refused then return refused end
  redis.call('RPOP', queue, used)
  for i = #stale + 1, #found_stale do stale[i] = found_stale[i] end
  if misrouted then
    local queues = prefix .. 'ready_queue:'
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
    local function pass_on(id, topic)
      local length = redis.pcall('LPUSH', queues .. topic, id)
      if type(length) == 'number' then
        wake(topic, length)
      else
        redis.pcall('ZADD', pool, 0, id)
      end
    end
    for _, entry in ipairs(misrouted) do pass_on(entry[1], entry[2]) end
  end
  return used, jobs, leases, used < count and used == #ids
end
local claim_tells = false
local STEP = 50
local waiters = prefix .. 'waiters:'
local function take_all(read, wants, claim, limit_at, gate)
  local reply, waiter, registered, register = {0, stale, 0}, ARGV[2], 1, nil
  for i = 2, #KEYS do
    local taken, leases = {}, nil
    local room = math.min(wanted, limit_at and tonumber(ARGV[limit_at + i - 2]) or wanted)
    local topic, asked, step, left = ARGV[#ARGV - #KEYS + i], room > 0, 1, 0
    local poll_in, others_served, among
    while room > 0 and not poll_in and entries_left > 0 and bytes_left > 0 do
      local count = math.min(math.max(room, step), entries_left)
      local used, jobs, more_leases, is_empty = take(KEYS[i], topic, count, room, read, wants, claim, gate)
      if gate then
        local served
        poll_in, served, among = gate(topic, nil, jobs and #jobs / 2 or 0)
        others_served = others_served or served
      end
      if type(used) == 'table' then
        if #taken == 0 and #reply == 3 and #stale == 0 and not claim_tells then return used end
        wanted, room, reply[1] = 0, 0, 1
        asked = false
      elseif used == 0 then
        if jobs then asked, registered = false, 0 end
        break
      else
        entries_left, step = entries_left - used, STEP
        room, wanted = room - #jobs / 2, wanted - #jobs / 2
        if #taken == 0 then
          taken, leases = jobs, more_leases
        else
          for k = 1, #jobs do taken[#taken + 1] = jobs[k] end
          for k = 4, leases and #more_leases or 0 do leases[#leases + 1] = more_leases[k] end
        end
        if is_empty then break end
      end
    end
    if asked and limit_at and not poll_in and (room == 0 or entries_left <= 0 or bytes_left <= 0) then
      local others = waiter ~= '' and ARGV[4] == '1'
      left = (others or not others_served and pcall('EXISTS', waiters .. topic) == 1) and pcall('LLEN', KEYS[i]) or -1
      if type(left) ~= 'number' then left = -1 end
      if left > 0 and not others_served then
        local queues = prefix .. 'ready_queue:'
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
        wake(topic, left)
      end
    end
    if asked and left == 0 and waiter ~= '' and (room > 0 or ARGV[4] == '1') and (not poll_in or among) then
      if not register then
        local registered_at
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
        register = add_waiter
      end
      if not register(topic, waiter, #taken > 0 and 0 or ARGV[3], among) then registered = 0 end
    end
    if #taken > 0 then
      reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = i - 1, taken, left
      if leases then reply[#reply + 1] = leases end
    end
    if poll_in then reply[#reply + 1], reply[#reply + 2] = 1 - i, poll_in end
  end
  if wanted > 0 and (entries_left <= 0 or bytes_left <= 0) then reply[1] = 1 end
  if waiter ~= '' then reply[3] = registered end
  if #reply == 3 and #stale == 0 and reply[3] == 0 and not claim_tells then
    local function takes_no_writes(queue)
      local reply = redis.pcall('RPOP', queue, 0)
      if type(reply) ~= 'table' or not reply.err then return nil end
      for _, reason in ipairs({'READONLY', 'NOREPLICAS', 'MASTERDOWN'}) do
        if string.find(reply.err, reason, 1, true) then return reply end
      end
    end
    local denied = takes_no_writes(KEYS[2])
    if denied then return denied end
  end
  if queue_error and #reply == 3 and reply[1] == 0 then
    if #stale == 0 and not claim_tells then return queue_error end
    reply[1] = 1
  end
  return reply
end
local followers -- the IDs of taken jobs that have one

-- Buckets first: if they may not be deleted, the entries are still there. The bucket of a job with a follower loses only its topic, so that
-- no consumer takes it again.
local function delete(jobs, names, n, _, followed)
  if n == 0 then return nil, jobs end
  if followed then
    local protected = rawget(_G, 'pcall')
    local function not_permitted(command, ...)
      if not redis.acl_check_cmd then return nil end
      local is_known, may = protected(redis.acl_check_cmd, command, ...)
      if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
      if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
    end
    local function not_followable(id, from)
      local name = buckets .. id
      return not_permitted('TIME') or not_permitted('HMGET', from, 'next') or not_permitted('PTTL', from)
        or not_permitted('HDEL', from, 'next') or not_permitted('HSET', name, 'topic', '')
        or not_permitted('HDEL', name, 'lease') or not_permitted('PEXPIRE', name, '1') or not_permitted('DEL', name)
        or not_permitted('ZADD', pool, '0', '') or not_permitted('ZREM', pool, '')
    end
    local k = next(followed)
    local err = not_followable(jobs[2 * k - 1], names[k])
    if err then return err end
    local others = {}
    followers = followers or {}
    for k = 1, n do
      if not followed[k] then
        others[#others + 1] = names[k]
      elseif redis.call('HDEL', names[k], 'topic') == 1 then
        followers[#followers + 1] = jobs[2 * k - 1]
      end
    end
    names = others
  end
  local deleted = #names > 0 and pcall('DEL', unpack(names)) or 0
  if type(deleted) == 'table' then return deleted end
  if deleted == n then return nil, jobs end
  local seen, once = {}, {} -- an ID was there twice, or has a follower
  for k = 1, #jobs, 2 do
    if not seen[jobs[k]] then
      seen[jobs[k]] = true
      once[#once + 1], once[#once + 2] = jobs[k], jobs[k + 1]
    end
  end
  return nil, once
end

local reply = take_all(nil, nil, delete, 5)
if not followers then return reply end

local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
local DEFAULT_LIFETIME = 604800000
local function read_options(text)
  if not text then return 0, 0, DEFAULT_LIFETIME, '' end
  local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
  return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
end
local queues = prefix .. 'ready_queue:'
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
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
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
local pushed_topics = prefix .. 'pushed_topics'
local function register_push(topic, seconds, due)
  register_use(topic, seconds, due)
  redis.pcall('ZADD', pushed_topics, 'GT', used_at(seconds), topic)
end
local function follow_up(id, from)
  local name = buckets .. id
  local follower = redis.call('HMGET', from, 'next', 'next_body', 'lease')
  local due, length, rest = string.match(follower[1] or '', '^(%d+) (%d+) (.*)$')
  local _, _, _, expires = read_lease(follower[3])
  if not due or pushed_again(redis.call('PTTL', from), expires) then
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
  else
    redis.call('ZADD', pool, score_of(math.max(due, now)), id)
    announce(score_of(math.max(due, now)), math.max(due - now, 0))
  end
  register_push(topic, now / 1000, due / 1000)
end
for _, id in ipairs(followers) do follow_up(id, buckets .. id) end
return reply
