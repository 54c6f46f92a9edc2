-- push: stores jobs. If a job of the same ID exists, the policy decides.
--
-- KEYS[1] job pool
-- ARGV[1] '1' to register the topics of the jobs, else '0'
-- ARGV[2] 'each': each job by itself; 'all': all of them or none
-- ARGV[3…] runs of jobs with the same terms, 1,000 jobs in all at most, no ID twice. A run is: how many jobs it has; their lifetime once
--   they are ready (ms); the policy; their options (see parts/lease.lua), '' for the defaults; and of each job its ID, topic, body, and
--   due time: a Unix time (ms), or, if it is not above 0, a delay (ms), negated
--
-- The policies. Only 'replace' replaces a job of another topic; under the others but 'refuse' and 'once', it stays, and its topic is told.
--   ''               the job is replaced
--   replace          the same
--   earlier, later   it is replaced, and the earlier, or the later, of both due times counts
--   refuse           nothing changes
--   once MS TEXT     nothing changes; nor does any push of the ID for MS ms from now on, whatever happens to the job. TEXT is the
--                    push's fingerprint, and may be missing
--   follow           it is replaced; but a reserved job stays, and this one takes its place when it is done: see parts/follow.lua
--   debounce MS      it is replaced, but is due MS ms after the first of these pushes at the latest; a lease starts a new count
-- Returns nil if all jobs are stored and are new. Else {position, what, …}, with the 1-based positions of the others: ALREADY_EXISTS, refused,
--   or the ID's push counts once; REUSED, the same, and that push has another fingerprint; a text, the error; REPLACED, it replaced a job;
--   KEPT_DUE, the same, and that job's due time counts; FOLLOWS, it follows a job; {topic}, refused, as the ID's job has this other topic.
--   With 'all', no job is stored if one has an error.
-- Errors: WRONGTYPE of the pool, OOM, NOPERM. Nothing has changed then.
-- Atomic because a bucket without its pool entry would never fall due, and an entry without its bucket could not be delivered.
-- Cost: O(log n) of the pool for each job. For an ID that is ready, also the length of its queue, 10,000 in all at most.
-- include: time
local call, ARGV = redis.call, ARGV -- globals are slower

-- A plain push, which most are: one new waiting job of a known topic. It returns before the definitions that only other pushes need, which
-- would cost as much as its commands.
local policy, id = ARGV[5], ARGV[7]
local is_plain = #ARGV == 10 and ARGV[1] == '0' and (policy == DEFAULT or not string.find(policy, ' ', 1, true))
local is_new = is_plain and call('EXISTS', buckets .. id) == 0
if is_new and ARGV[10] ~= '0' then
  local name, due, lifetime = buckets .. id, ARGV[10] + 0, ARGV[4] + 0
  if due < 0 then due = now - due end
  local may, protected = redis.acl_check_cmd, rawget(_G, 'pcall') -- as in not_permitted, which a plain push does without
  local is_known, sets, expires = true, true, true
  if may then is_known, sets = protected(may, 'HSET', name, 'topic', '') end
  if may and is_known then is_known, expires = protected(may, 'PEXPIRE', name, '1') end
  if due > begun and is_known and sets and expires then
    local part = due % 1000
    local score = part == 0 and string.format('%d', due / 1000) or string.format('%d.%03d', (due - part) / 1000, part) -- as score_of does
    call('ZADD', pool, score, id)
    if ARGV[6] == '' then
      call('HSET', name, 'topic', ARGV[8], 'body', ARGV[9])
    else
      call('HSET', name, 'topic', ARGV[8], 'body', ARGV[9], 'options', ARGV[6])
    end
    call('PEXPIRE', name, string.format('%d', due - now + lifetime))
    -- include: go: ANNOUNCED_WITHIN
    if due - now <= ANNOUNCED_WITHIN then
      -- include: pool: announce
      announce(score, due - now)
    end
    return nil
  end
end

-- include: guard: not_permitted; pool: announce; time: score_of
local FIRST = 3 -- place of the first run

-- Writes the bucket of the job that begins at ARGV[i], in the run that begins at ARGV[run].
local function write(name, i, run, expiry)
  local options = ARGV[run + 3]
  local usual = options == ''
  if usual then
    call('HSET', name, 'topic', ARGV[i + 1], 'body', ARGV[i + 2])
  else
    call('HSET', name, 'topic', ARGV[i + 1], 'body', ARGV[i + 2], 'options', options)
  end
  call('PEXPIRE', name, expiry)
  return usual
end

local function not_writable_bucket(name)
  return not_permitted('HSET', name, 'topic', '') or not_permitted('PEXPIRE', name, '1')
end

-- include: guard: not_a_list; keys: queues; queue: wake
-- Why a due job can't be put into its queue, or nil.
local function not_queueable(topic)
  local queue = queues .. topic
  local err = not_permitted('LPUSH', queue, '') or not_permitted('ZREM', pool, '') or not_a_list(queue)
  if err then return err.err end
  local cardinality = redis.pcall('ZCARD', pool)
  if type(cardinality) == 'table' then return cardinality.err .. ' (job pool ' .. pool .. ')' end
end

if is_new then -- it is ready at once
  local name = buckets .. ARGV[7]
  local why_not = not_queueable(ARGV[8])
  if why_not then return {1, why_not} end
  local err = not_writable_bucket(name)
  if err then return err end
  write(name, 7, FIRST, ARGV[4])
  call('ZREM', pool, ARGV[7])
  wake(ARGV[8], call('LPUSH', queues .. ARGV[8], ARGV[7]))
  return {}
end

-- include: go: EARLIER KEPT_DUE LATER_DUE REFUSE REPLACED; lease: is_lease; time: LAST_MS
-- The due time of a job with this policy that replaces one with another due time, and the outcome to return.
local function replaced_due(policy, old, due)
  if policy == EARLIER and old < due or policy == LATER_DUE and old > due then return old, KEPT_DUE end
  return due, REPLACED
end

-- The due time of the job with this score.
local function due_of(score)
  return math.min(math.ceil(tonumber(score) * 1000), LAST_MS) -- never early
end

-- Deletes the other fields of a replaced job's bucket, except the time of its first push if that is to be kept.
local function forget(name, usual, keep_first)
  redis.pcall('HDEL', name, 'lease', 'error', usual and 'options' or 'error', keep_first and 'error' or 'first', 'next', 'next_body')
end

if is_plain and policy ~= REFUSE and ARGV[10] ~= '0' then -- a job that waits is replaced by one that waits
  local name, waits = buckets .. ARGV[7], call('ZSCORE', pool, ARGV[7])
  local was = waits and not is_lease(waits) and redis.pcall('HGET', name, 'topic')
  if was == ARGV[8] or policy == REPLACE and type(was) == 'string' then
    local due, what = now - ARGV[10], nil
    if tonumber(ARGV[10]) > 0 then due = tonumber(ARGV[10]) end
    due, what = replaced_due(policy, due_of(waits), due)
    if due > begun then
      local err = not_writable_bucket(name)
      if err then return err end
      call('ZADD', pool, score_of(due), ARGV[7])
      forget(name, write(name, 7, FIRST, string.format('%d', math.max(due - now, 0) + ARGV[4])))
      announce(score_of(due), due - now)
      return {1, what}
    end
  end
end

-- include: go: ALL_OR_NONE; lease: count_reserved; queue: withdraw
-- Stores the job at ARGV[i], in the run at ARGV[run]. If it waits, it is in the pool already. latest is how long after its first push it
-- is due at the latest (ms); nil without such a bound.
local last_due, last_lifetime, last_expiry -- jobs of one call often have all of this in common
local ended -- leases: how many, by topic, and their jobs
local lengths -- of the queues that get jobs, by topic
local used = ARGV[1] == '1' and {} -- topics, and when the last of their jobs is due
local function store(name, i, run, due, replaced, latest)
  local id, topic, lifetime = ARGV[i], ARGV[i + 1], ARGV[run + 1]
  if due ~= last_due or lifetime ~= last_lifetime then
    last_due, last_lifetime = due, lifetime
    last_expiry = string.format('%d', math.max(due - now, 0) + lifetime)
  end
  local usual = write(name, i, run, last_expiry)
  if latest and not (replaced and replaced.first) then
    call('HSET', name, 'first', string.format('%d', begun))
  end
  if used then used[topic] = math.max(used[topic] or 0, due) end
  if replaced then
    forget(name, usual, latest)
    if replaced.ready then withdraw(replaced.ready, id) end
    if replaced.reserved then
      ended = ended or {{}, {}}
      ended[1][replaced.reserved], ended[2][#ended[2] + 1] = (ended[1][replaced.reserved] or 0) - 1, id
    end
  end
  if due <= begun then
    redis.pcall('ZREM', pool, id) -- pcall, as an ID that is gone can't be written while its slot moves
    lengths = lengths or {}
    lengths[topic] = call('LPUSH', queues .. topic, id)
  end
end

-- How to judge and store the jobs of the run at ARGV[run], whose IDs may exist or whose policy is not plain. Most calls have no such run and
-- skip these definitions. (A script of its own would have to store plain jobs too: a call may have both, and stores all or none.)
local function special(run)
  -- include: go: ALREADY_EXISTS FOLLOW FOLLOWS; policy: count_once debounce_limit debounced has_counted not_once once_window; time: now_s
  local policy = ARGV[run + 2]
  local window, fingerprint = once_window(policy)
  local latest = debounce_limit(policy)

  -- Returns why the job at ARGV[i] can't be stored: ALREADY_EXISTS, REUSED, {topic}, an error's text, or nil. Then when it is due; and the job that it
  -- replaces, if any: the field ready or reserved has its topic; if this job follows it, followed has the text of its lease, and options its
  -- options.
  local function judge(name, i, due, may_exist)
    local id, was = ARGV[i], may_exist and redis.pcall('HGET', name, 'topic')
    if type(was) == 'table' then return was.err .. ' (job bucket ' .. name .. ')' end
    if was and (window or policy == REFUSE) or window and has_counted(id) then
      if fingerprint and fingerprint ~= '' then
        -- include: go: REUSED; policy: differs_from_counted
        if differs_from_counted(id, fingerprint) then return REUSED end
      end
      return ALREADY_EXISTS
    end
    if was and was ~= ARGV[i + 1] and policy ~= REPLACE then return {was} end
    if not was then return nil, latest and debounced(latest, due) or due end
    local err = not_writable_bucket(name)
    if err then return err.err end
    local waits = call('ZSCORE', pool, id)
    local reserved = waits and is_lease(waits)
    local followed = policy == FOLLOW and reserved and tonumber(waits) > now_s and call('HGET', name, 'lease')
    if followed then
      err = not_permitted('PTTL', name)
      if err then return err.err end
      return nil, due, {followed = followed, options = call('HGET', name, 'options'), what = FOLLOWS}
    end
    local when, what = replaced_due(policy, waits and not reserved and due_of(waits) or begun, due)
    local burst = latest and call('HMGET', name, 'first', 'lease')
    local first = burst and not burst[2] and burst[1] and tonumber(burst[1])
    if latest then when = debounced(latest, when, first) end
    return nil, when, {ready = not waits and was, reserved = reserved and was, what = what, first = first}
  end

  -- Stores it, or lets it follow the job that it would replace.
  local function finish(name, i, due, replaced)
    if replaced and replaced.followed then
      -- include: follow: store_follower
      store_follower(name, replaced.followed, replaced.options, ARGV[i + 1], ARGV[i + 2], due, ARGV[run + 1], ARGV[run + 3])
    else
      store(name, i, run, due, replaced, latest)
    end
    if window then
      count_once(ARGV[i], window)
      if fingerprint ~= '' then
        -- include: policy: keep_fingerprint
        keep_fingerprint(ARGV[i], fingerprint, window)
      end
    end
  end

  return judge, finish, window and not_once
end

-- The first write is always one that Redis refuses at maxmemory, so that a push is refused whole. ZADD comes first also because it fails if
-- the pool has the wrong type.
local told, first_due = {}, math.huge -- the reply; when the first of the waiting jobs is due
if #ARGV == FIRST + 7 then
  -- Most calls have one job. It does without tables, which cost as much as the commands.
  local name, due = buckets .. ARGV[7], tonumber(ARGV[10])
  if due <= 0 then due = due == 0 and begun or now - due end
  local exists = call('EXISTS', name) == 1
  local why_not, replaced, judge, finish, not_once
  if exists or string.find(policy, ' ', 1, true) then
    judge, finish, not_once = special(FIRST)
    why_not, due, replaced = judge(name, 7, due, exists)
  end
  local followed = replaced and replaced.followed
  if not why_not and due <= begun and not followed then why_not = not_queueable(ARGV[8]) end
  if why_not then return {1, why_not} end
  local err = not followed and not_writable_bucket(name) or not_once and not_once()
  if err then return err end
  if due > begun and not followed then
    first_due = due
    call('ZADD', pool, score_of(due), ARGV[7])
  end
  if finish then finish(name, 7, due, replaced) else store(name, 7, FIRST, due) end
  if replaced then told = {1, replaced.what} end
else
  local names, n, run = {}, 0, FIRST -- of the buckets
  while run < #ARGV do
    local next_run = run + 4 + 4 * ARGV[run]
    for i = run + 4, next_run - 1, 4 do
      n = n + 1
      names[n] = buckets .. ARGV[i]
    end
    run = next_run
  end
  -- One EXISTS for all, as most IDs are new.
  local some_exist = call('EXISTS', unpack(names)) > 0
  local dues, replaced, finishers, an_error, some_once = {}, {}, {}, false, nil
  local entries, last_scored, last_score = {} -- of the pool: score, ID, score, ID, …
  local k, e = 0, 0
  run = FIRST
  while run < #ARGV do
    local next_run = run + 4 + 4 * ARGV[run]
    local judge, finish, not_once
    if some_exist or string.find(ARGV[run + 2], ' ', 1, true) then judge, finish, not_once = special(run) end
    finishers[run], some_once = finish, some_once or not_once
    for i = run + 4, next_run - 1, 4 do
      k = k + 1
      local due, why_not, other = tonumber(ARGV[i + 3]), nil, nil
      if due <= 0 then due = due == 0 and begun or now - due end
      if judge then
        why_not, due, other = judge(names[k], i, due, some_exist)
        replaced[k] = other
      end
      local followed = other and other.followed
      if not why_not and due <= begun and not followed then why_not = not_queueable(ARGV[i + 1]) end
      dues[k] = not why_not and due
      if why_not then
        told[#told + 1], told[#told + 2] = k, why_not
        an_error = an_error or type(why_not) == 'string'
      elseif due > begun and not followed then
        if due ~= last_scored then last_scored, last_score = due, score_of(due) end
        entries[e + 1] = last_score
        entries[e + 2] = ARGV[i]
        e = e + 2
        if due < first_due then first_due = due end
      end
    end
    run = next_run
  end
  if an_error and ARGV[2] == ALL_OR_NONE then return told end
  local err = not_writable_bucket(names[1]) or some_once and some_once()
  if err then return err end
  if e > 0 then call('ZADD', pool, unpack(entries)) end
  k, run = 0, FIRST
  while run < #ARGV do
    local next_run, finish = run + 4 + 4 * ARGV[run], finishers[run]
    for i = run + 4, next_run - 1, 4 do
      k = k + 1
      local due, other = dues[k], replaced[k]
      if due and finish then
        finish(names[k], i, due, other)
        if other then told[#told + 1], told[#told + 2] = k, other.what end
      elseif due then
        store(names[k], i, run, due)
      end
    end
    run = next_run
  end
end
if ended then count_reserved(ended[1], ended[2]) end
if used then
  -- include: topics: register_push
  for topic, last in pairs(used) do register_push(topic, now / 1000, last / 1000) end
end
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
if lengths then
  for topic, length in pairs(lengths) do wake(topic, length) end
end
return told
