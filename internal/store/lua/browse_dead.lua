-- browse_dead: reads some of a topic's dead letters, the newest or the oldest first.
--
-- KEYS[1] the topics that have any   KEYS[2] the topic's dead letters
-- ARGV[1…6] as browse (parts/browse.lua); the position is a score and an ID   ARGV[7] 'oldest' to begin with these, else ''
-- ARGV[8] 'stale' to tell entries without a letter, too, with the topic '', else ''
--
-- Returns what browse does, with scores.
-- Errors: WRONGTYPE of the list, NOPERM.
--
-- Atomic so that entries and content belong together.
-- Cost: O(log n) of the list, and O(entries read).
-- include: browse: job_of browse; guard: unreadable; place: entries_before
local list, oldest_first = KEYS[2], ARGV[7] == 'oldest'
local stale_too = ARGV[8] == 'stale'

-- How many entries are to be passed over, from the side that is first.
local function passed_over()
  if ARGV[5] == '' then return 0 end
  -- Byte by byte, nothing comes between an ID and the same with a zero byte.
  if oldest_first then return entries_before(list, ARGV[5], ARGV[6] .. '\0') end
  return redis.call('ZCARD', list) - entries_before(list, ARGV[5], ARGV[6])
end
local first = passed_over()

local function read(skip, count)
  local range = oldest_first and 'ZRANGE' or 'ZREVRANGE'
  local entries = redis.call(range, list, first + skip, first + skip + count - 1, 'WITHSCORES')
  local ids, scores = {}, {}
  for i = 1, #entries, 2 do ids[#ids + 1], scores[#scores + 1] = entries[i], entries[i + 1] end
  return ids, scores
end

local function letter_of(name)
  local letter = job_of(name)
  if stale_too and not unreadable(letter) and not letter[1] then return {''} end
  return letter
end

return browse(read, dead_letters, letter_of)
