-- drop_dead: deletes dead letters.
--
-- KEYS[1] the topic's dead letters   KEYS[2] the zset of the topics that have any
-- ARGV[1] the topic   ARGV[2] what the names of dead letters' buckets begin with
-- ARGV[3] those that were buried later than that stay (Unix ms)
-- ARGV[4…] IDs, 1,000 at most
--
-- Returns how many there were.
-- Errors: WRONGTYPE, a permission that is missing; nothing has changed then.
--
-- Atomic because an entry and its bucket belong together.
-- Cost: O(log n) of the topic's dead letters for each.
local list, topics, topic, letters = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local err = not_permitted('ZREM', list, '')
if err then return err end
local scores = redis.call('ZMSCORE', list, unpack(ARGV, 4))
local names, ids = {}, {}
for k = 1, #scores do
  if scores[k] and scores[k] - ARGV[3] <= 0 then
    ids[#ids + 1], names[#names + 1] = ARGV[k + 3], letters .. ARGV[k + 3]
  end
end
if #ids == 0 then return 0 end
redis.call('DEL', unpack(names))
local dropped = redis.call('ZREM', list, unpack(ids))
if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', topics, topic) end
return dropped
