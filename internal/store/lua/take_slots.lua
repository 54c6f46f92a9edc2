-- take_slots: assigns slots to jobs of a topic that were reserved before its limit was set, one page of the pool per call.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2…3] the position of the last entry, its score and ID; '' to begin   ARGV[4] the mark that limit set
-- Returns {score, ID}: ARGV[2…3] of the next call; '' at the end, or if the topic has no mark: another program has done it, or the limit has
-- ended. The last page deletes the mark, unless it is a later one.
-- Errors: WRONGTYPE, NOPERM.
-- Atomic because a lease may end between the check and the entry. Cost: O(log² n) of the pool, and O(PAGE).
-- include: guard lease place slots time
local PAGE = 200
local topic, set = ARGV[1], slots .. ARGV[1]
local err = not_permitted('ZADD', set, '0', '') or not_permitted('HDEL', uncounted, topic)
if err then return err end
local mark = redis.call('HGET', uncounted, topic)
if not mark then return {'', ''} end
local function finish()
  if mark == ARGV[4] then redis.call('HDEL', uncounted, topic) end
  return {'', ''}
end
local first = ARGV[2] == '' and redis.call('ZCOUNT', pool, '-inf', exact_score(now_us)) or page_after(pool, ARGV[2], ARGV[3])
local page = redis.call('ZRANGE', pool, first, first + PAGE - 1, 'WITHSCORES')
for i = 1, #page, 2 do
  local id, score = page[i], page[i + 1]
  if tonumber(score) > now_s + MAX_LEASE / 1000 + 1 then return finish() end
  if is_lease(score) and redis.pcall('HGET', buckets .. id, 'topic') == topic then
    redis.call('ZADD', set, slot_score(score * 1000000), id)
  end
end
if #page < 2 * PAGE then return finish() end
return {page[#page], page[#page - 1]}
