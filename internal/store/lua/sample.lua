-- sample: reads the topics of some waiting jobs, at random: the pool is divided into as many parts as the sample has entries, and one
-- entry of each is read; a pool that has no more than that is read whole.
--
-- KEYS[1] job pool
-- ARGV[1] how many entries the whole sample has   ARGV[2] how many were read before   ARGV[3] how many to read   ARGV[4] a random number
-- Returns {entries, read, leases, topic, jobs, topic, jobs, …}: how many entries the pool has; how many were read, fewer than asked for
-- at the end of the pool and where IDs are very long; how many of these are leases; the topic is '' for entries without a job.
-- Errors: WRONGTYPE of the pool, NOPERM.
-- One script to spare round trips. Cost: O(log n) of the pool for each entry.
-- include: guard lease
local MAX_BYTES = 1024 * 1024
local sample, before, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local all = redis.call('ZCARD', pool)
math.randomseed(tonumber(ARGV[4]))

local looked, leases, bytes, jobs, topics = 0, 0, 0, {}, {}

local function look(id, score)
  looked, bytes = looked + 1, bytes + #id
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

while looked < count and bytes < MAX_BYTES do
  local rank, page = before + looked, math.min(50, count - looked)
  if all > sample then
    rank, page = math.floor((rank + math.random()) * all / sample), 1
  end
  local entries = redis.call('ZRANGE', pool, rank, rank + page - 1, 'WITHSCORES')
  if #entries == 0 then break end
  for i = 1, #entries, 2 do
    local err = look(entries[i], entries[i + 1])
    if err then return err end
  end
end
local reply = {all, looked, leases}
for _, topic in ipairs(topics) do reply[#reply + 1], reply[#reply + 2] = topic, jobs[topic] end
return reply
