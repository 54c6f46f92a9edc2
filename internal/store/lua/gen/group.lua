-- group: adds bodies to groups. A group is a waiting job whose body is a JSON array of the bodies that were pushed to it. It is ready when it
-- has the maximum number of bodies, or when the next one would make it too long: that one starts another group.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local groups = prefix .. 'group:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local buckets = prefix .. 'job_bucket:'
local DEFAULT = ''
local ONCE_FORM = '^once (%d+) ?(.*)$'
local function once_window(policy)
  if policy == DEFAULT then return nil end
  local ms, fingerprint = string.match(policy, ONCE_FORM)
  return ms and tonumber(ms), fingerprint
end
local once = prefix .. 'once'
local now = now_us % 1000 == 0 and begun or begun + 1
local function has_counted(id)
  local until_ms = redis.call('ZSCORE', once, id)
  return until_ms and tonumber(until_ms) - now > 0
end
local REUSED = 4
local ALREADY_EXISTS = 0
local MAX_GROUP = 1048576
local LATER = 7
local function debounced(limit, due, first)
  return math.max(math.min(due, (first or begun) + limit), begun)
end
local DEBOUNCE_FORM = '^debounce (%d+)$'
local function debounce_limit(policy)
  local ms = policy ~= DEFAULT and string.match(policy, DEBOUNCE_FORM)
  return ms and tonumber(ms)
end
local ADDED = 6
local CREATED = 5
local ALL_OR_NONE = 'all'
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local IN_CLUSTER = false
local queues = prefix .. 'ready_queue:'
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local function not_once()
  return not_permitted('ZADD', once, '0', '') or not_permitted('PTTL', once) or not_permitted('PEXPIRE', once, '1')
    or not_permitted('ZRANGEBYSCORE', once, '0', '0') or not_permitted('ZREM', once, '')
end
local lengths = {}
local function make_ready(topic, id, in_front)
  local length = in_front and redis.pcall('RPUSH', queues .. topic, id) or redis.pcall('LPUSH', queues .. topic, id)
  if type(length) == 'table' then return length end
  lengths[topic] = length
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
local function keep_once(ms)
  if redis.call('PTTL', once) < ms then redis.call('PEXPIRE', once, string.format('%d', ms)) end
end
local OVER = 10
local function count_once(id, window)
  redis.call('ZADD', once, string.format('%d', now + window), id)
  keep_once(window)
  local over = redis.call('ZRANGEBYSCORE', once, '-inf', string.format('%d', now), 'LIMIT', 0, OVER)
  if #over > 0 then redis.call('ZREM', once, unpack(over)) end
end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local MOST_DEAD, DEAD_COST = 100, 10
local waking_left = MOST_DEAD * DEAD_COST
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
local function wake_all()
  for topic, length in pairs(lengths) do wake(topic, length) end
end
local call = redis.call
local FIRST, TERMS, PUSH = 3, 6, 4 -- the place of the first run, and how many values terms and a push have
local KNOWN_FOR = 60000            -- ms; how long a group is found by its tag after it is due, in case servers are late
local LARGE = 16 * 1024            -- bytes; from this size on a body is also kept as a text: see parts/text.lua
local GROUP = 16 * 1024            -- bytes; the cost of a group besides its body, as copied bytes

-- The waiting group of a tag, nil for none; is_over if it is due and no server has moved it yet. Second, an error's text, or an error reply.
-- Its bucket and the pool decide: it may have been removed, replaced or reserved since.
local function waiting_group(tag, topic)
  local group = redis.pcall('HMGET', groups .. tag, 'id', 'text')
  if unreadable(group) then return nil, group end
  if group.err then return nil, group.err .. ' (group ' .. groups .. tag .. ')' end
  local id, text = group[1], nil
  local score = id and call('ZSCORE', pool, id)
  if not score or is_lease(score) then return nil end
  local is_over = math.floor(score * 1000 + 0.5) <= begun
  if id and group[2] == id then
    local texts = prefix .. 'group_text:'
    local function text_of(id)
      local length = redis.pcall('SETRANGE', texts .. id, 0, '')
      return type(length) == 'number' and length == redis.pcall('HSTRLEN', buckets .. id, 'body') and length or nil
    end
    text = text_of(id)
  end
  local job = redis.pcall('HMGET', buckets .. id, 'topic', 'first', 'lease', not text and 'body' or 'topic')
  if unreadable(job) then return nil, job end
  local first, count = string.match(job[2] or '', '^(%d+) (%d+)$')
  local body = not text and job[4]
  if job[1] ~= topic or not first or job[3] or not (text or body and string.byte(body, -1) == 93) then return nil end -- ]
  return {id = id, tag = tag, topic = topic, is_over = is_over, first = tonumber(first), count = tonumber(count),
    size = text or #body, stored = text or #body, body = body, bodies = {}}
end

-- A group without a body yet. No job has its ID.
local serial = now_us
local function new_group(tag, topic)
  local id
  repeat
    id = tag .. string.format('%.0f', serial)
    serial = serial + 1
  until call('EXISTS', buckets .. id) == 0
  return {id = id, tag = tag, topic = topic, first = begun, count = 0, size = 1, bodies = {}}
end

local function add(group, body)
  group.bodies[#group.bodies + 1] = body
  group.size, group.count = group.size + #body + 1, group.count + 1
end

local told, an_error = {}, false
local cost = 0 -- of the groups, in bytes
local changed, full = {}, {} -- groups; those that are ready, in order
local open = {}    -- the groups that take further pushes, by tag; false if no stored one does
local counted = {} -- IDs, and for how long (ms)
local fingerprints = {}  -- the fingerprints of these pushes, if they have any

-- Adds the push at ARGV[i], in the run at ARGV[run], to its group. Returns the outcome, and the group; or an error reply.
local function push(i, run)
  local id, topic, body = ARGV[i], ARGV[i + 1], ARGV[i + 2]
  local tag, window, fingerprint = string.match(id, '^[^}]*}'), once_window(ARGV[run + 4])
  if window and (counted[id] or has_counted(id)) then
    if fingerprint ~= '' then
      local once_contents = prefix .. 'once_content:'
      local function differs_from_counted(id, fingerprint)
        local until_ms = redis.call('ZSCORE', once, id)
        local counts = until_ms and redis.pcall('HGET', once_contents .. id, 'of')
        local first = type(counts) == 'string' and string.match(counts, '^' .. until_ms .. ' (.*)$')
        return first and first ~= fingerprint
      end
      if differs_from_counted(id, fingerprint) then return REUSED end
    end
    return ALREADY_EXISTS
  end
  local group, failed = open[tag], nil
  if not group and cost > MAX_GROUP then return LATER end
  if group == nil then group, failed = waiting_group(tag, topic) end
  if failed then return failed end
  if not group or not group.run then -- its body is copied once a call: three times, or once if it is kept as a text
    local more = GROUP + (group and not group.is_over and group.stored * (group.body and 3 or 1) or 0)
    if cost > 0 and cost + more > MAX_GROUP then
      cost = MAX_GROUP + 1 -- no smaller one either: further groups are not even read
      return LATER
    end
    cost = cost + more
  end
  local before = group
  if group and (group.is_over or group.size + #body + 1 > MAX_GROUP) then -- it must be ready before the next one
    group.due = begun
    full[#full + 1] = group
    if not group.run then changed[#changed + 1] = group end
    group = nil
  end
  group = group or new_group(tag, topic)
  if not group.run then changed[#changed + 1] = group end
  group.run = run -- the last one that has added to it
  add(group, body)
  local most = tonumber(ARGV[run + 5])
  local is_full = most > 0 and group.count >= most
  group.due = is_full and begun or debounced(debounce_limit(ARGV[run + 2]), now - ARGV[i + 3], group.first)
  open[tag] = group.due > begun and group
  if not open[tag] then full[#full + 1] = group end
  if window then
    counted[id] = window
    if fingerprint ~= '' then fingerprints[id] = fingerprint end
  end
  return group == before and ADDED or CREATED, group
end

local run = FIRST
while run < #ARGV do
  local next_run = run + TERMS + PUSH * ARGV[run]
  for i = run + TERMS, next_run - 1, PUSH do
    local what, group = push(i, run)
    if type(what) == 'table' then return what end
    an_error = an_error or type(what) == 'string'
    told[#told + 1] = what
    told[#told + 1] = group and group.id or ''
  end
  run = next_run
end
if #changed == 0 or an_error and ARGV[2] == ALL_OR_NONE then return told end

local entries, first_due = {}, math.huge -- of the pool: score, ID, score, ID, …
for k, group in ipairs(changed) do
  entries[2 * k - 1], entries[2 * k] = score_of(group.due), group.id
  if group.due > begun then first_due = math.min(first_due, group.due) end
  if IN_CLUSTER and group.due <= begun then
    local function elsewhere(key)
      local reply = IN_CLUSTER and redis.pcall('EXISTS', key)
      return type(reply) == 'table' and string.find(reply.err, 'non local key', 1, true) and reply
    end
    local missing = elsewhere(queues .. group.topic)
    if missing then return missing end
  end
end
local bucket, waits = buckets .. changed[1].id, groups .. changed[1].tag
local err = not_permitted('HSET', bucket, 'topic', '') or not_permitted('PEXPIRE', bucket, '1') or not_permitted('ZREM', pool, '')
  or not_permitted('HSET', waits, 'id', '') or not_permitted('PEXPIRE', waits, '1') or not_permitted('DEL', waits)
  or next(counted) and not_once()
if err then return err end
-- The first write is one that Redis refuses at maxmemory, or if the pool has the wrong type.
call('ZADD', pool, unpack(entries))

-- Makes a full group ready. If the queue can't take it, it stays in the pool, due now, and the server names the reason.
local function complete(group)
  if not make_ready(group.topic, group.id) then call('ZREM', pool, group.id) end
  call('DEL', groups .. group.tag)
  if group.size >= LARGE then
    local texts = prefix .. 'group_text:'
    redis.pcall('DEL', texts .. group.id)
  end
end

-- The group's body with what was pushed to it, and whether it is kept as a text.
local function body_of(group, name)
  if not group.stored then return '[' .. table.concat(group.bodies, ',') .. ']' end
  if not group.body then
    local texts = prefix .. 'group_text:'
    local function lengthened(id, length, more)
      if redis.pcall('SETRANGE', texts .. id, length - 1, more) ~= length - 1 + #more then return nil end
      local body = redis.pcall('GET', texts .. id)
      return type(body) == 'string' and body or nil
    end
    local body = lengthened(group.id, group.stored, ',' .. table.concat(group.bodies, ',') .. ']')
    if body then return body, true end
  end
  return string.sub(group.body or call('HMGET', name, 'body')[1], 1, -2) .. ',' .. table.concat(group.bodies, ',') .. ']'
end

local function store(group, name, lifetime, options)
  local body
  body, group.in_text = body_of(group, name)
  if group.size >= LARGE and group.due > begun and not group.in_text then
    local texts = prefix .. 'group_text:'
    local TEXT_KEPT = 60000
    local function keep_text(id, body)
      local text = texts .. id
      local err = not_permitted('SETRANGE', text, '0', '') or not_permitted('GET', text) or not_permitted('HSTRLEN', buckets .. id, 'body')
      if err then return false end
      redis.pcall('DEL', text)
      redis.pcall('SETRANGE', text, 0, body)
      redis.pcall('PEXPIRE', text, TEXT_KEPT)
      return true
    end
    group.in_text = keep_text(group.id, body)
  end
  call('HSET', name, 'topic', group.topic, 'first', string.format('%d %d', group.first, group.count), 'body', body)
  if options ~= '' then
    call('HSET', name, 'options', options)
  elseif group.stored then
    redis.pcall('HDEL', name, 'options')
  end
  call('PEXPIRE', name, string.format('%d', math.max(group.due - now, 0) + lifetime))
end

for _, group in ipairs(changed) do
  local run = group.run
  if run then store(group, buckets .. group.id, ARGV[run + 1], ARGV[run + 3]) end
  if ARGV[1] == '1' then register_push(group.topic, now / 1000, group.due / 1000) end
end
for _, group in ipairs(full) do complete(group) end
for tag, group in pairs(open) do
  if group then
    call('HSET', groups .. tag, 'id', group.id, group.in_text and 'text' or 'id', group.id)
    call('PEXPIRE', groups .. tag, string.format('%d', group.due - now + KNOWN_FOR))
  end
end
for id, window in pairs(counted) do count_once(id, window) end
if next(fingerprints) then
  local once_contents = prefix .. 'once_content:'
  local function keep_fingerprint(id, fingerprint, window)
    local until_ms = redis.call('ZSCORE', once, id)
    redis.pcall('HSET', once_contents .. id, 'of', until_ms .. ' ' .. fingerprint)
    redis.pcall('PEXPIRE', once_contents .. id, string.format('%d', window))
  end
  for id, fingerprint in pairs(fingerprints) do keep_fingerprint(id, fingerprint, counted[id]) end
end
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
wake_all()
return told
