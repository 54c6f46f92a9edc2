-- sample: reads the topics of random waiting jobs, of all or of those due by a time. It divides the pool into as many parts as the sample
-- has entries, and reads one entry of each; it reads a smaller pool whole.
--
-- KEYS[1] job pool
-- ARGV[1] how many entries the whole sample has   ARGV[2] how many were read before   ARGV[3] how many to read   ARGV[4] a random number
-- ARGV[5] only entries that are due within this time (ms); '' for all
-- Returns {entries, read, leases, topic, jobs, topic, jobs, …}: how many such entries the pool has; how many were read, fewer than requested at the
-- end of the pool and if IDs are very long; how many of these are leases; the topic is '' for entries without a job.
-- Errors: WRONGTYPE of the pool, NOPERM.
-- One script saves round trips. Cost: O(log n) of the pool for each entry.
-- include: guard lease sample time
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
