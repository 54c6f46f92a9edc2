-- group: adds bodies to groups. A group is a waiting job whose body is a JSON array of the bodies that were pushed to it. It is ready when it
-- has the maximum number of bodies, or when the next one would make it too long: that one starts another group.
--
-- KEYS[1] job pool
-- ARGV[1…2] as in push
-- ARGV[3…] runs of pushes with the same terms. A run is: how many pushes it has; the lifetime of the job once it is ready (ms); 'debounce'
--   and how long after its first push a group is due at the latest (ms); the options, as in push; '', or 'once' as in push; how
--   many bodies a group has at most, 0 for any number; and of each push, 1,000 in all at most: the group's tag, which ends with
--   the first }, and behind it the ID that counts once, if any; topic; body; and a delay (ms), negated, after which the group is due if
--   nothing else is pushed to it. The terms of the latest push count.
-- Returns {what, ID, what, ID, …}, of each push: CREATED, it started a group; ADDED, it was added to one; ALREADY_EXISTS, its ID has counted
-- before; REUSED, the same, and that push has another fingerprint; LATER, it is for another call, since this one has copied enough; or the
-- error, a text. ID names the group's job, '' for none. With 'all', nothing is stored if there is an error.
-- Errors: WRONGTYPE of the pool, OOM, NOPERM. Nothing has changed then.
-- Atomic because two pushes that read and write one body would lose one, and a group that is taken must not grow.
-- Cost: O(log n) of the pool for each group, whose body is copied once a call. That takes about 2 ms in all.
-- include: guard lease policy pool queue time topics cluster
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
    -- include: text: text_of
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
      -- include: policy: differs_from_counted
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
    -- include: cluster: elsewhere
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
    -- include: keys: texts
    redis.pcall('DEL', texts .. group.id)
  end
end

-- The group's body with what was pushed to it, and whether it is kept as a text.
local function body_of(group, name)
  if not group.stored then return '[' .. table.concat(group.bodies, ',') .. ']' end
  if not group.body then
    -- include: text: lengthened
    local body = lengthened(group.id, group.stored, ',' .. table.concat(group.bodies, ',') .. ']')
    if body then return body, true end
  end
  return string.sub(group.body or call('HMGET', name, 'body')[1], 1, -2) .. ',' .. table.concat(group.bodies, ',') .. ']'
end

local function store(group, name, lifetime, options)
  local body
  body, group.in_text = body_of(group, name)
  if group.size >= LARGE and group.due > begun and not group.in_text then
    -- include: text: keep_text
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
  -- include: policy: keep_fingerprint
  for id, fingerprint in pairs(fingerprints) do keep_fingerprint(id, fingerprint, counted[id]) end
end
if first_due < math.huge then announce(score_of(first_due), first_due - now) end
wake_all()
return told
