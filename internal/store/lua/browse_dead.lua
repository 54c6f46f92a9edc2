-- browse_dead: some of a topic's dead letters, the newest first; it changes nothing.
--
-- KEYS[1] the topic's dead letters
-- ARGV[1…7] see browse, of the buckets of dead letters; the place is a score and an ID
--
-- Returns what browse does; where an entry is, is its score.
-- Errors: WRONGTYPE of the list, a permission that is missing.
--
-- Atomic so that entries and content belong together.
-- Cost: O(log n) of the list, and O(entries looked at).
local list = KEYS[1]
local left = ARGV[6] ~= '' and entries_before(list, ARGV[6], ARGV[7]) or redis.call('ZCARD', list)

local function read(skip, count)
  local last = left - skip - 1
  if last < 0 then return {} end
  local entries = redis.call('ZRANGE', list, math.max(last - count + 1, 0), last, 'WITHSCORES')
  local ids, scores = {}, {}
  for i = #entries - 1, 1, -2 do ids[#ids + 1], scores[#scores + 1] = entries[i], entries[i + 1] end
  return ids, scores
end

return browse(read, function(_, _, name) return job_of(name) end)
