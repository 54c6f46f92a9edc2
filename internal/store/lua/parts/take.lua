-- Takes the next entries of ready queues. The scripts pop, reserve and purge share it.
--
-- KEYS[1] job pool   KEYS[2…] ready queues, in the order in which they are tried
-- ARGV[1] how many jobs are wanted, 1 to 1,000
-- ARGV[2] the waiter to register at queues with fewer jobs than wanted, '' for none   ARGV[3] how long it has waited (µs)
-- ARGV[4] '1' to register it at every queue that is empty then   the last of ARGV: the topics of KEYS[2…]
--
-- An entry of a queue is a hint; the bucket and the pool decide:
--   no usable bucket            dropped as stale
--   the ID is in the pool       dropped: it was rescheduled or reserved, and will be ready again
--   bucket of another topic     passed on to that topic's queue, or, if that is broken, to the pool: the server names it
--   a job that was just taken   dropped: the ID was in the queue twice

local wanted, entries_left, bytes_left = tonumber(ARGV[1]), 1000, 1024 * 1024
local STEP = 50

local pcall = redis.pcall
local stale, found_stale, some_bytes, queue_error = {}, {}, false, nil
local claim_tells = false -- whether the reply must report what claim did, even without jobs

-- include: call: waking_left
-- Takes up to count of a queue's last entries, which are next, and up to most jobs of them. Returns how many entries it dropped or took; what
-- claim made of the jobs, or why it returns no jobs; and whether the queue is empty now. Or an error reply. See take_all.
local function take(queue, topic, count, most, read, wants, claim, gate)
  local ids = pcall('LRANGE', queue, -count, -1)
  if ids.err then
    -- include: guard: not_a_list unreadable
    -- An error raised after a take would lose its jobs, so whatever TYPE needs must be defined by then.
    queue_error = not unreadable(ids) and not_a_list(queue) or ids
    return 0, queue_error
  end
  if #ids == 0 then return 0 end
  local denied = pcall('RPOP', queue, 0) -- removes nothing
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

  -- All reads and checks come before the first write: an error after it would lose entries.
  local waits = pcall('ZMSCORE', pool, unpack(ids))
  if waits.err then
    -- include: guard: unreadable
    if unreadable(waits) then return waits end
  end
  local jobs, names, misrouted, followed = {}, {}, nil, nil
  local n, first = 0, #ids + 1 -- jobs; the first entry that is dropped or taken
  for i = #ids, 1, -1 do
    if n == most or bytes_left <= 0 then break end
    local id = ids[i]
    local name = buckets .. id
    local job = read and read(name) or pcall('HMGET', name, 'topic', 'body', 'options')
    local owner = job[1]
    if owner == topic and not waits[i] then
      local body = job[2] or ''
      local size = #id + #body
      if size > bytes_left and some_bytes then -- the first job is taken however large it is
        bytes_left = 0
        break
      end
      if not wants or wants(id, name, job) then
        bytes_left, some_bytes = bytes_left - size, true
        -- One after the other: Lua would assign the last of several values first, and a table that gets its second element first is no
        -- array, which is slower.
        jobs[2 * n + 1] = id
        jobs[2 * n + 2] = body
        n = n + 1
        names[n] = name
        if job[3] then
          -- include: lease: has_follower read_options
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
        -- include: guard: unreadable
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
    -- include: guard: not_writable
    denied = not_writable()
    if denied then return denied end
  end
  local refused, leases
  refused, jobs, leases = claim(jobs, names, n, topic, followed)
  if refused then return refused end
  redis.call('RPOP', queue, used)
  for i = #stale + 1, #found_stale do stale[i] = found_stale[i] end
  if misrouted then
    -- include: queue: pass_on
    for _, entry in ipairs(misrouted) do pass_on(entry[1], entry[2]) end
  end
  return used, jobs, leases, used < count and used == #ids
end

-- Takes jobs of all queues, and returns the script's reply.
--   read(name)           HMGET's reply for a bucket: topic, body, options, and more; nil reads these three
--   wants(id, name, job) whether to take the job; else its entry is dropped. nil takes all
--   claim(jobs, names, n, topic, followed)  makes jobs, {id, body, …}, the caller's. followed has the positions of jobs with a follower.
--                        Returns an error reply and has changed nothing; or nil, the jobs, and their leases
--   limit_at             where ARGV has the maximum number of jobs of each queue
--   gate(topic, n)       how many of n jobs may be taken now, or 0 and an error reply. nil allows all
--   gate(topic, nil, n)  takes how many were taken. Returns in how long (ms) to poll again if no more may be taken, else nil; whether no
--                        other waiter is to be woken; and the set in which to register a waiter that is woken at that time
-- The reply is {more, stale, registered, queue, jobs, left, …}, with the leases behind left; and {-queue, in how long} for a queue of which
-- no more may be taken. If jobs are left, the next waiter is woken.
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
        -- What was taken before must be reported; the next call meets the error again.
        wanted, room, reply[1] = 0, 0, 1
        asked = false
      elseif used == 0 then
        if jobs then asked, registered = false, 0 end -- the queue is broken, and the reply reports it
        break
      else
        entries_left, step = entries_left - used, STEP
        room, wanted = room - #jobs / 2, wanted - #jobs / 2
        if #taken == 0 then
          taken, leases = jobs, more_leases
        else
          for k = 1, #jobs do taken[#taken + 1] = jobs[k] end
          for k = 4, leases and #more_leases or 0 do leases[#leases + 1] = more_leases[k] end -- behind what is common
        end
        if is_empty then break end
      end
    end
    if asked and limit_at and not poll_in and (room == 0 or entries_left <= 0 or bytes_left <= 0) then
      -- Only waiters need the number of jobs that are left.
      local others = waiter ~= '' and ARGV[4] == '1'
      left = (others or not others_served and pcall('EXISTS', waiters .. topic) == 1) and pcall('LLEN', KEYS[i]) or -1
      if type(left) ~= 'number' then left = -1 end
      if left > 0 and not others_served then
        -- include: queue: wake
        wake(topic, left)
      end
    end
    if asked and left == 0 and waiter ~= '' and (room > 0 or ARGV[4] == '1') and (not poll_in or among) then
      if not register then
        -- include: queue: add_waiter
        register = add_waiter
      end
      -- A client that got a job queues behind the others.
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
    -- include: guard: takes_no_writes
    local denied = takes_no_writes(KEYS[2])
    if denied then return denied end
  end
  if queue_error and #reply == 3 and reply[1] == 0 then
    if #stale == 0 and not claim_tells then return queue_error end
    reply[1] = 1 -- the reply must report what was dropped, or what claim did; the next call meets the error
  end
  return reply
end
