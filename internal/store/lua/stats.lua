-- stats: how many jobs some of the known topics have; it changes nothing.
--
-- KEYS[1] job pool   KEYS[2] the known topics   KEYS[3] the hash of the numbers of reserved jobs
-- ARGV[1] what the names of ready queues begin with   ARGV[2] what those of lists of dead letters
-- ARGV[3] how many topics to leave out   ARGV[4] how many to tell of, at most
--
-- Returns {pool, topic, ready, reserved, dead, topic, …}: pool is how many jobs are in the pool,
-- waiting and reserved; a number that can't be read is -1.
-- Errors: WRONGTYPE of the pool or the topics, a permission that is missing.
--
-- One script only to spare round trips.
-- Cost: O(topics).
local first = tonumber(ARGV[3])
local topics = redis.call('ZRANGE', KEYS[2], first, first + ARGV[4] - 1)
local reserved = #topics > 0 and redis.pcall('HMGET', KEYS[3], unpack(topics)) or {}
local function number(reply) return type(reply) == 'number' and reply or -1 end
local reply = {redis.call('ZCARD', KEYS[1])}
for k, topic in ipairs(topics) do
  reply[#reply + 1], reply[#reply + 2] = topic, number(redis.pcall('LLEN', ARGV[1] .. topic))
  reply[#reply + 1] = reserved.err and -1 or math.max(tonumber(reserved[k] or 0), 0)
  reply[#reply + 1] = number(redis.pcall('ZCARD', ARGV[2] .. topic))
end
return reply
