-- stray: counts a partition's jobs and dead letters.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local known_topics = prefix .. 'topics'
local queues = prefix .. 'ready_queue:'
local parked_queues = prefix .. 'paused_queue:'
local dead_topics = prefix .. 'dead_topics'
local dead_lists = prefix .. 'dead_letters:'
local most = tonumber(ARGV[1])
local function number(reply) return type(reply) == 'number' and reply or 0 end
local function first(topics)
  local names = redis.pcall('ZRANGE', topics, 0, most)
  return names.err and {} or names
end
local jobs, more = number(redis.pcall('ZCOUNT', pool, '-inf', '+inf')), 0
for i, topic in ipairs(first(known_topics)) do
  if i > most then more = 1 break end
  jobs = jobs + number(redis.pcall('LLEN', queues .. topic)) + number(redis.pcall('LLEN', parked_queues .. topic))
end
for i, topic in ipairs(first(dead_topics)) do
  if i > most then more = 1 break end
  jobs = jobs + number(redis.pcall('ZCOUNT', dead_lists .. topic, '-inf', '+inf'))
end
return {jobs, more}
