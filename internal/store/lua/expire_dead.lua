-- expire_dead: deletes dead letters that are too old or too many, the oldest first.
--
-- KEYS[1] the zset of the topics that have dead letters
-- ARGV[1] what the names of their lists begin with   ARGV[2] what those of their buckets begin with
-- ARGV[3] which are too old: those that were buried before that long ago (ms)
-- ARGV[4] how many a topic may have; 0: any number   ARGV[5] how many are deleted at most
--
-- Returns {more, topic, ids, topic, ids, …}: more is 1 when there may be more to delete.
-- Errors: WRONGTYPE of the zset, a permission that is missing.
--
-- Atomic because an entry and its bucket belong together.
-- Cost: O(log n) for each that is deleted; with ARGV[4], also O(topics that have dead letters).
local topics, lists, letters = KEYS[1], ARGV[1], ARGV[2]
local cutoff = string.format('%d', now - ARGV[3])
local most, left = tonumber(ARGV[4]), tonumber(ARGV[5])
local MAX_TOPICS = 100
local err = not_permitted('ZREM', topics, '')
if err then return err end

-- Some of the topic's entries, the oldest first.
local function oldest_of(list)
  local ids = redis.pcall('ZRANGEBYSCORE', list, '-inf', cutoff, 'LIMIT', 0, left)
  local too_many = most > 0 and math.min(redis.pcall('ZCARD', list) - most, left) or 0
  if too_many > #ids then ids = redis.call('ZRANGE', list, 0, too_many - 1) end
  return ids
end

local reply = {0}
local candidates = most > 0 and redis.call('ZRANGE', topics, 0, -1)
  or redis.call('ZRANGEBYSCORE', topics, '-inf', cutoff, 'LIMIT', 0, MAX_TOPICS)
for _, topic in ipairs(candidates) do
  local list = lists .. topic
  if left > 0 and redis.call('TYPE', list).ok ~= 'zset' then
    redis.call('ZREM', topics, topic)
  elseif left > 0 then
    local ids = oldest_of(list)
    if #ids > 0 then
      local names = {}
      for k, id in ipairs(ids) do names[k] = letters .. id end
      redis.call('DEL', unpack(names))
      redis.call('ZREM', list, unpack(ids))
      reply[#reply + 1], reply[#reply + 2] = topic, ids
      left = left - #ids
    end
    local oldest = redis.pcall('ZRANGE', list, 0, 0, 'WITHSCORES')
    if oldest.err then
      -- The topic is looked at again.
    elseif oldest[2] then
      redis.call('ZADD', topics, oldest[2], topic)
    else
      redis.call('ZREM', topics, topic)
    end
  end
end
if left <= 0 or most == 0 and #candidates == MAX_TOPICS then reply[1] = 1 end
return reply
