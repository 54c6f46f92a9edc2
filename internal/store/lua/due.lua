-- due: the next jobs to move, by topic; it changes nothing.
--
-- KEYS[1] job pool
-- ARGV[1] what the names of buckets begin with
-- ARGV[2] how many jobs at most   ARGV[3] how many of the first due jobs to pass over
--
-- Returns {took, due, wait, orphans, topic, ids, topic, ids, …}: took is the
-- script's own time in µs (0 where Redis has no clock that runs inside a script);
-- due is how many jobs are due in all; wait is the time until the next falls due,
-- in µs, -1 if none is known; orphans are the due IDs without a usable bucket.
-- Errors: WRONGTYPE of the pool; a permission that is missing.
-- The ids of a topic are in due order.
--
-- Atomic because the counts and ranks must be of one moment.
-- Cost: O(log n) of the pool, and O(1) a job looked up.
local stop = stopwatch()
local t = redis.call('TIME')
local now = t[1] .. '.' .. string.format('%06d', t[2])
local due = redis.pcall('ZCOUNT', KEYS[1], '-inf', now)
if type(due) == 'table' then
  return redis.error_reply(due.err .. ' (job pool ' .. KEYS[1] .. ')')
end

local wait = -1
local next = redis.call('ZRANGE', KEYS[1], due, due, 'WITHSCORES')
if next[2] then
  wait = math.min(math.ceil((tonumber(next[2]) - tonumber(now)) * 1000000), 3600000000)
end

local reply = {0, due, wait, {}}
local skip = tonumber(ARGV[3])
local count = math.min(tonumber(ARGV[2]), due - skip)
if count > 0 then
  local orphans, of_topic = reply[4], {}
  local call, prefix = redis.pcall, ARGV[1]
  for _, id in ipairs(call('ZRANGE', KEYS[1], skip, skip + count - 1)) do
    local topic = call('HGET', prefix .. id, 'topic')
    if type(topic) == 'string' then
      local ids = of_topic[topic]
      if not ids then
        ids = {}
        of_topic[topic] = ids
        reply[#reply + 1] = topic
        reply[#reply + 1] = ids
      end
      ids[#ids + 1] = id
    elseif refused(topic) then
      return topic
    else
      orphans[#orphans + 1] = id
    end
  end
end
reply[1] = stop()
return reply
