-- limit: sets or removes a topic's limit.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] how many jobs may be reserved at a time; -1: any number; '': remove the limit
-- ARGV[3] the time between two starts (µs), 0 for none   ARGV[4] how many may start at once   ARGV[5] the limit of all partitions, as it was
--   set
-- Returns 1. Jobs that are reserved already do not count until their leases end.
-- Errors: WRONGTYPE, OOM, NOPERM. Nothing has changed then.
-- Atomic because a reserve must find the topic with its limit or without.
-- Cost: O(log(slots)), and O(throttled clients), 1,000 at most.
-- include: guard limit queue throttle time topics cluster
local topic = ARGV[1]
local err = not_permitted('HSET', limits, topic, '') or not_permitted('HDEL', limits, topic) or not_permitted('DEL', slots .. topic)
  or not_permitted('HSET', reserved_counts, topic, '0') or not_permitted('HDEL', reserved_counts, topic)
  or elsewhere(slots)
if err then return err end
local count = math.max(lowered(tonumber(redis.call('HGET', reserved_counts, topic) or 0) or 0), 0)
local before, _, _, next = read_limit(topic)

if ARGV[2] == '' then
  redis.call('HDEL', limits, topic)
  if count > 0 then
    redis.call('HSET', reserved_counts, topic, string.format('%.0f', count))
  else
    redis.call('HDEL', reserved_counts, topic)
  end
  redis.call('DEL', slots .. topic)
  end_throttling(topic)
  local length = redis.pcall('LLEN', queues .. topic)
  if type(length) == 'number' and length > 0 then wake(topic, length) end
  return 1
end

local concurrency, interval = tonumber(ARGV[2]), tonumber(ARGV[3])
local written = write_limit(topic, concurrency, interval, ARGV[4], before and math.min(next, now_us + interval) or 0, 0, ARGV[5])
if type(written) == 'table' then return written end
redis.call('HSET', reserved_counts, topic, string.format('%.0f', raise_for(concurrency) + count))
register_use(topic, now_s, now_s)
if concurrency < 0 then redis.call('DEL', slots .. topic) end
wake_throttled(topic)
return 1
