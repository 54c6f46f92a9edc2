-- sample: reads the topics of random waiting jobs, of all or of those due by a time. It divides the pool into as many parts as the sample
-- has entries, and reads one entry of each; it reads a smaller pool whole.
local pool = KEYS[1]
local function score_of(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
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
local sample, before, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local all = ARGV[5] == '' and redis.call('ZCARD', pool) or redis.call('ZCOUNT', pool, '-inf', score_of(now + ARGV[5]))
math.randomseed(tonumber(ARGV[4]))
local leases, jobs, topics = 0, {}, {}

-- Counts an entry. Returns an error reply if no bucket can be read.
local function visit(id, score)
  if is_lease(score) then
    leases = leases + 1
    return
  end
  local topic = redis.pcall('HGET', buckets .. id, 'topic')
  if unreadable(topic) then return topic end
  if type(topic) ~= 'string' then topic = '' end
  if not jobs[topic] then
    jobs[topic] = 0
    topics[#topics + 1] = topic
  end
  jobs[topic] = jobs[topic] + 1
end

local step = math.max(all / sample, 1)
count = math.min(count, math.max(math.ceil(all / step) - before, 0))
local entries_read, err = sample_pool(math.floor(before * step), count, step, visit)
if err then return err end
local reply = {all, entries_read, leases}
for _, topic in ipairs(topics) do reply[#reply + 1], reply[#reply + 2] = topic, jobs[topic] end
return reply
