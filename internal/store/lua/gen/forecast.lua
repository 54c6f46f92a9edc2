-- forecast: counts the jobs that fall due in spans of time.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local LIMIT_MARK = 1099511627776
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK
  return kept - raised, raised
end
local MAX_LEASE = 86400000
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local pool = KEYS[1]
local PAGE, MAX_BYTES = 100, 256 * 1024
local function sample_pool(rank, count, step, visit)
  local entries_read, bytes = 0, 0
  while entries_read < count and bytes < MAX_BYTES do
    local first, last = rank + entries_read, rank + math.min(entries_read + PAGE, count) - 1
    if step > 1 then
      first = rank + math.floor((entries_read + math.random()) * step)
      last = first
    end
    local entries = redis.call('ZRANGE', pool, first, last, 'WITHSCORES')
    if #entries == 0 then break end
    for i = 1, #entries, 2 do
      entries_read, bytes = entries_read + 1, bytes + #entries[i]
      local ended = visit(entries[i], entries[i + 1])
      if ended then return entries_read, ended end
    end
  end
  return entries_read
end
local ALL, SAMPLE = 1000, 200
local COUNTED, SAMPLED, ENOUGH = 10, 5, 600 -- costs; to read the next entry costs 1
local from = ARGV[1] ~= '' and tonumber(ARGV[1]) or now

-- Whether any job is reserved; true if that can't be read, or takes long.
local function some_reserved()
  local topics = redis.pcall('HLEN', KEYS[2])
  if topics == 0 then return false end
  if type(topics) == 'table' or topics > 10000 then return true end
  for _, count in ipairs(redis.call('HVALS', KEYS[2])) do
    if lowered(tonumber(count) or 1) ~= 0 then return true end
  end
  return false
end
local last_lease = some_reserved() and now + MAX_LEASE or -1

local spent = 0

local leases
local function count_lease(_, score)
  if is_lease(score) then leases = leases + 1 end
end

local reply = {string.format('%d', from)}
for i = 3, #ARGV do
  if spent >= ENOUGH then break end
  local starts, ends = score_of(from + ARGV[i - 1]), score_of(from + ARGV[i])
  local entries = redis.call('ZCOUNT', pool, starts, '(' .. ends)
  local sampled = entries
  leases = 0
  if entries > 0 and from + ARGV[i - 1] <= last_lease then
    local first = redis.call('ZCOUNT', pool, '-inf', '(' .. starts)
    if entries <= ALL then
      sampled = sample_pool(first, entries, 1, count_lease)
      spent = spent + sampled
    else
      sampled = sample_pool(first, SAMPLE, entries / SAMPLE, count_lease)
      spent = spent + sampled * SAMPLED
    end
  end
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = entries, sampled, leases
  spent = spent + COUNTED
end
return reply
