-- reserve: takes the next ready jobs of some topics and leases them: each returns to the pool, due when its lease ends. A job whose last lease
-- has ended and whose attempts are used up becomes a dead letter here; if that fails it is deferred, and does not delay the others.
local DEFAULT_LEASE = 30000
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local function exact_score(us)
  local rest = us % 1000000
  return string.format('%d.%06d', (us - rest) / 1000000, rest)
end
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local DEFAULT_LIFETIME = 604800000
local pcall = redis.pcall
local wanted, entries_left, bytes_left = tonumber(ARGV[1]), 1000, 1024 * 1024
local pool = KEYS[1]
local LENT = 100
local UNTIL_SEEN = 120000
local function loan(left, length)
  if left < 0 or left >= LENT * length and left - length >= UNTIL_SEEN then return nil end
  return length + math.max(UNTIL_SEEN - left, 0)
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local reserved_counts = prefix .. 'reserved'
local HAS_LIMIT = 549755813888
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local stale, found_stale, some_bytes, queue_error = {}, {}, false, nil
local buckets = prefix .. 'job_bucket:'
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
local function take(queue, topic, count, most, read, wants, claim, gate)
  local ids = pcall('LRANGE', queue, -count, -1)
  if ids.err then
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
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local function announce_end(at)
  if at < math.huge then announce(exact_score(at), math.ceil((at - now_us) / 1000)) end
end
local usual_length, default_most = tonumber(ARGV[5]), tonumber(ARGV[6])
local as_the_job_says = usual_length == 0
if as_the_job_says then usual_length = DEFAULT_LEASE end

-- The usual lease.
local usual_end, usual_score = lease_end(usual_length)
local first_attempt = lease_text(1, now_us, 0, DEFAULT_LIFETIME)
local first_end = math.huge -- µs

-- The data of the jobs taken next, nil for new jobs without options; and the jobs whose attempts are used up.
local known, seen, exhausted, taken = {}, {}, {}, 0
local followers -- IDs of buried jobs whose followers take their places
local deferred = {} -- topic, ID, why, …

-- Reads the fields of a job that was reserved before, or has options; defined when it is first needed.
local known_of

local function read(name) return pcall('HMGET', name, 'topic', 'body', 'options', 'lease') end

local function wants(id, name, job)
  if seen[id] then return false end -- the ID was there twice
  seen[id] = true
  local job_knows
  if job[3] or job[4] then
    if not known_of then
      local FOLLOWER_BYTE = 43
      local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
      local function read_lease(text)
        if not text then return 0, 0, 0, 0 end
        local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
        return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
      end
      local CLOCK_SLACK = 500
      local function pushed_again(ttl, expires)
        return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
      end
      local function read_options(text)
        if not text then return 0, 0, DEFAULT_LIFETIME, '' end
        local most, ttr, lifetime, headers = string.match(text, '^%+?(%d+) (%d+) (%d+) ?(.*)$')
        return tonumber(most) or 0, tonumber(ttr) or 0, tonumber(lifetime) or DEFAULT_LIFETIME, headers or ''
      end
      known_of = function(name, job)
        local k = {}
        local lent
        k.attempts, k.token, lent, k.expires = read_lease(job[4])
        k.most, k.ttr, k.lifetime = read_options(job[3])
        k.followed = has_follower(job[4])
        if k.expires > 0 then
          k.ttl = pcall('PTTL', name)
          if type(k.ttl) == 'table' then -- write_lease returns it
            k.attempts = 0
          elseif pushed_again(k.ttl, k.expires) then
            k.anew, k.attempts, k.most, k.ttr, k.lifetime, k.followed = true, 0, 0, 0, DEFAULT_LIFETIME, false
            job[3] = false
          end
        end
        return k
      end
    end
    job_knows = known_of(name, job)
    local limit = job_knows.most > 0 and job_knows.most or default_most
    if limit > 0 and job_knows.attempts >= limit then
      exhausted[#exhausted + 1] = {id, name, job_knows.attempts, job_knows.followed}
      entries_left = entries_left - 10 -- a burial costs as much
      return false
    end
  end
  taken = taken + 1
  known[taken] = job_knows
  return true
end

-- Buries the jobs whose attempts are used up, or defers them.
local function bury_exhausted(topic)
  local dead_letters = prefix .. 'dead_letter:'
  local dead_lists = prefix .. 'dead_letters:'
  local dead_topics = prefix .. 'dead_topics'
  local function unlist(topic, id)
    local list = dead_lists .. topic
    redis.pcall('ZREM', list, id)
    if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
  end
  local function bury(id, bucket, topic, reason, text, has_follower)
    local letter, list = dead_letters .. id, dead_lists .. topic
    if has_follower then
      local function not_followable(id, from)
        local name = buckets .. id
        return not_permitted('TIME') or not_permitted('HMGET', from, 'next') or not_permitted('PTTL', from)
          or not_permitted('HDEL', from, 'next') or not_permitted('HSET', name, 'topic', '')
          or not_permitted('HDEL', name, 'lease') or not_permitted('PEXPIRE', name, '1') or not_permitted('DEL', name)
          or not_permitted('ZADD', pool, '0', '') or not_permitted('ZREM', pool, '')
      end
      local IN_CLUSTER = false
      local function elsewhere(key)
        local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
        return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
      end
      local err = not_followable(id, letter) or elsewhere(buckets)
      if err then return err end
    end
    local was = redis.pcall('HGET', letter, 'topic')
    local listed = redis.pcall('ZADD', list, string.format('%d', now), id)
    if type(listed) == 'table' then
      return redis.error_reply(listed.err .. ' (dead letters ' .. list .. ')')
    end
    local renamed = redis.pcall('RENAME', bucket, letter)
    if renamed.err then
      if was ~= topic then unlist(topic, id) end
      return redis.error_reply(renamed.err .. ' (RENAME to ' .. dead_letters .. '…)')
    end
    if type(was) == 'string' and was ~= topic then unlist(was, id) end
    redis.pcall('HSET', letter, 'reason', reason, 'died', string.format('%d', now))
    if text ~= '' then redis.pcall('HSET', letter, 'error', text) end
    redis.pcall('PERSIST', letter)
    redis.pcall('ZADD', dead_topics, 'NX', string.format('%d', now), topic)
  end
  local function retry_score(from, k)
    return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
  end
  local RETRY_AFTER = 5000
  for _, job in ipairs(exhausted) do
    local err = bury(job[1], job[2], topic, string.format(job[3] == 1 and 'the only attempt used up' or 'all %d attempts used up', job[3]), '', job[4])
    if not err and job[4] then
      followers = followers or {}
      followers[#followers + 1] = job[1]
    elseif err then
      local n = #deferred
      redis.call('ZADD', pool, retry_score(now + RETRY_AFTER, n / 3), job[1])
      claim_tells = true
      deferred[n + 1], deferred[n + 2], deferred[n + 3] = topic, job[1], err.err
    end
  end
end

-- Writes a lease into the job's bucket. Returns how long the job has been ready, or an error reply.
local function write_lease(name, length, text, attempt, token, k)
  local ttl = k and k.ttl or pcall('PTTL', name)
  if type(ttl) == 'table' then return ttl end
  local changed
  local lent = loan(ttl, length)
  if lent then
    changed = pcall('PEXPIRE', name, string.format('%d', ttl + lent))
    if type(changed) == 'table' then return changed end
    text = lease_text(attempt, token, lent, ttl + lent)
  elseif not text or ttl > DEFAULT_LIFETIME then
    text = lease_text(attempt, token, 0, ttl)
  end
  if k and k.followed then
    local FOLLOWER_MARK = '+'
    text = FOLLOWER_MARK .. text
  end
  changed = pcall('HSET', name, 'lease', text)
  if type(changed) == 'table' then return changed end
  -- The job was ready for the part of its lifetime that has passed. Later attempts add to that.
  local late = (k and k.lifetime or DEFAULT_LIFETIME) - ttl
  return attempt == 1 and ttl >= 0 and late >= 0 and late or -1
end

-- Leases the job, and adds its part of the reply to leases. Returns its score, what write_lease returns, and when the lease ends (Unix µs).
local function reserve(name, k, leases)
  local n = #leases
  if not k then
    local late = write_lease(name, usual_length, first_attempt, 1, now_us)
    leases[n + 1] = 1
    leases[n + 2] = late
    first_end = math.min(first_end, usual_end)
    return usual_score, late, usual_end
  end
  if k.anew then pcall('HDEL', name, 'options', 'error', 'next', 'next_body') end
  local length, at, score = usual_length, usual_end, usual_score
  if as_the_job_says and k.ttr > 0 then
    local MAX_LEASE = 86400000
    local SHORTEST_LEASE = 100
    length = math.max(math.min(k.ttr, MAX_LEASE), SHORTEST_LEASE)
    at, score = lease_end(length)
  end
  local token = math.max(now_us, k.token + 1)
  local late = write_lease(name, length, nil, k.attempts + 1, token, k)
  leases[n + 1] = -(k.attempts + 1)
  leases[n + 2] = late
  leases[n + 3] = k.most
  leases[n + 4] = length
  leases[n + 5] = at
  leases[n + 6] = token
  first_end = math.min(first_end, at)
  return score, late, at
end

-- The jobs are counted as reserved before they are read, so that no further command is needed to know whether the topic has a limit. (A
-- reserve that leaves topics with a limit to another script takes 1 % less time, and needs a second call when it meets one.)
local counted = 0
local close, slots_of_topic -- of a topic with a limit, see open_limit

local function gate(topic, n, taken)
  if taken then
    if taken ~= counted and pcall('HINCRBY', reserved_counts, topic, taken - counted) == 0 then pcall('HDEL', reserved_counts, topic) end
    counted = 0
    if not close then return nil end
    local limit_closes = close
    close, slots_of_topic = nil, nil
    return limit_closes(taken)
  end
  local count = pcall('HINCRBY', reserved_counts, topic, n)
  counted = n
  if type(count) ~= 'number' then
    local IN_CLUSTER = false
    local function elsewhere(key)
      local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
      return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
    end
    local limits = prefix .. 'limits'
    local missing = elsewhere(reserved_counts)
    if missing and pcall('HEXISTS', limits, topic) ~= 0 then return 0, missing end
    return n
  end
  if count < HAS_LIMIT then return n end
  local limits = prefix .. 'limits'
  local function parse_limit(topic, text)
    if not text then return nil end
    if type(text) == 'table' then return nil, text end
    local concurrency, interval, burst, next, appointed, whole = string.match(text, '^(%-?%d+) (%S+) (%d+) (%d+) (%d+) (.*)$')
    interval = tonumber(interval)
    if not interval then return nil, redis.error_reply('ERR what ' .. limits .. ' says of the topic ' .. topic .. ' is no limit') end
    return tonumber(concurrency), interval, tonumber(burst), tonumber(next), tonumber(appointed), whole
  end
  local MADE_UP_FOR = 250000
  local slots = prefix .. 'slots:'
  local throttled_waiters = prefix .. 'throttled_waiters:'
  local APART, LONGEST = 5000, 5000000
  local function write_limit(topic, concurrency, interval, burst, next, appointed, whole)
    local text = string.format('%d %.17g %d %.0f %.0f ', concurrency, interval, burst, next, appointed) .. whole
    return redis.pcall('HSET', limits, topic, text)
  end
  --
  local queues = prefix .. 'ready_queue:'
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
  local function open_limit(topic, n, waits)
    local text = redis.pcall('HGET', limits, topic)
    local only = type(text) == 'string' and string.match(text, '^(%d+) 0 ')
    local concurrency, interval, burst, next, appointed, whole = only and tonumber(only), 0
    if not only then
      concurrency, interval, burst, next, appointed, whole = parse_limit(topic, text)
      if not concurrency then return interval and 0 or n, nil, nil, interval end
    end
    local begin, since, free, set = math.huge, 0, math.huge, nil
    if interval > 0 then
      next = math.min(next, now_us + interval)
      local early = burst > 0 and (burst - 1) * interval + 0.5 or MADE_UP_FOR
      since = math.max(next, now_us - early)
      begin = math.max(math.floor((now_us - since) / interval) + 1, 0)
    end
    if concurrency >= 0 then
      set = slots .. topic
      local last = concurrency - n - 1
      local some = last >= 0 and redis.pcall('ZRANGE', set, last, last)
      if not some or #some > 0 or some.err then
        local function slot_score(at) return string.format('%.0f', at) end
        local PLACES = 1000
        local function is_lease(score)
          local part = score * 1000 % 1
          return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
        end
        local function free_among(set, ids, at, changes)
          local free = {}
          if #ids == 0 then return free end
          local scores = redis.pcall('ZMSCORE', pool, unpack(ids))
          if scores.err then return scores end
          for i, id in ipairs(ids) do
            local score = scores[i] and tonumber(scores[i])
            if not score or score * 1000000 <= at or not is_lease(score) then
              free[#free + 1] = id
            elseif changes then
              redis.pcall('ZADD', set, slot_score(score * 1000000), id)
            end
          end
          return free
        end
        local OTHERS = 200
        local function count_slots(topic, at, most)
          local set = slots .. topic
          local all = redis.pcall('ZCOUNT', set, '-inf', '+inf')
          if type(all) == 'table' or most and all <= most then return all end
          local past = redis.pcall('ZRANGE', set, '-inf', slot_score(at), 'BYSCORE', 'LIMIT', 0, PLACES)
          if past.err then return past end
          local free = free_among(set, past, at, most)
          if free.err then return free end
          if not most then return all - #free end
          if all - #free > most then
            local first = redis.pcall('ZRANGE', set, 0, OTHERS - 1)
            free = first.err and first or free_among(set, first, at)
            if free.err then return free end
          end
          local left = all - #free
          if left == 0 then free[#free] = nil end
          if #free > 0 then redis.pcall('ZREM', set, unpack(free)) end
          return left
        end
        local err = some and some.err and some or not_permitted('ZRANGE', set, '0', '0')
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
  local most, err
  most, close, slots_of_topic, err = open_limit(topic, n, ARGV[2] ~= '')
  return most, err
end

local writable -- checked for the first queue; it holds for all

local function claim(jobs, names, n, topic)
  local err = not writable and not_writable()
  if not err and n > 0 then
    err = not_permitted('HSET', names[1], 'lease', '') or not_permitted('PEXPIRE', names[1], '1')
  end
  if err then return err end
  writable = true
  if exhausted[1] then bury_exhausted(topic) end
  local leases = {usual_length, usual_end, now_us}
  local scores, ends = {}, {} -- of leases that are not the usual one
  for k = 1, n do
    local score, refused, at = reserve(names[k], known[k], leases)
    if type(refused) == 'table' then
      if k == 1 then return refused end
      leases[#leases] = -1 -- it is leased all the same, but this attempt is not counted
    end
    if score ~= usual_score then scores[k], ends[k] = score, at end
  end
  if n > 0 then
    -- The last one first: Redis searches a short sorted set from its beginning, where entries of one score are sorted by ID, and IDs often
    -- grow.
    local entries, e = {}, 0 -- score, ID, score, ID, …
    for k = n, 1, -1 do
      entries[e + 1] = scores[k] or usual_score
      entries[e + 2] = jobs[2 * k - 1]
      e = e + 2
    end
    redis.call('ZADD', pool, unpack(entries))
    if slots_of_topic then
      local usual = string.format('%.0f', usual_end) -- as slot_score does
      for k = 1, n do
        entries[2 * (n - k) + 1] = ends[k] and string.format('%.0f', ends[k]) or usual
      end
      redis.pcall('ZADD', slots_of_topic, unpack(entries))
    end
  end
  known, exhausted, taken = {}, {}, 0
  return nil, jobs, leases
end

local reply = take_all(read, wants, claim, 7, gate)
announce_end(first_end)
if not reply.err then table.insert(reply, 4, deferred) end
if not followers then return reply end

local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local CLOCK_SLACK = 500
local function pushed_again(ttl, expires)
  return expires > 0 and ttl >= 0 and now + ttl - expires > CLOCK_SLACK
end
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
local dead_letters = prefix .. 'dead_letter:'
for _, id in ipairs(followers) do follow_up(id, dead_letters .. id) end
return reply
