-- browse_pool: reads some waiting or reserved jobs, the next to fall due first.
--
-- KEYS[1] job pool
-- ARGV[1…6] as browse (parts/browse.lua); the position is a score and an ID   ARGV[7] 'waiting' or 'reserved'
--
-- Returns what browse does, with scores.
-- Errors: WRONGTYPE of the pool, NOPERM.
--
-- Atomic so that entries and content belong together.
-- Cost: O(log n) of the pool, and O(entries read).
-- include: browse: job_of browse; lease: is_lease; place: entries_before
local reserved = ARGV[7] == 'reserved'
-- Byte by byte, nothing comes between an ID and the same with a zero byte.
local first = ARGV[5] ~= '' and entries_before(pool, ARGV[5], ARGV[6] .. '\0') or 0

local function read(skip, count)
  local entries = redis.call('ZRANGE', pool, first + skip, first + skip + count - 1, 'WITHSCORES')
  local ids, scores = {}, {}
  for i = 1, #entries, 2 do ids[#ids + 1], scores[#scores + 1] = entries[i], entries[i + 1] end
  return ids, scores
end

return browse(read, buckets, function(name, score)
  local leased = is_lease(score)
  if reserved and not leased then return nil end
  local job = job_of(name)
  if leased and not job.err and (job[2] ~= false) ~= reserved then return nil end
  return job
end)
