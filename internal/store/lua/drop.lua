-- drop: removes orphans from the pool: due IDs whose bucket is gone, has no topic, or is no hash.
--
-- KEYS[1] job pool
-- ARGV[1] when they were found to be due (Unix s)   ARGV[2] when to retry those whose bucket can't be read (Unix ms)
-- ARGV[3…] IDs
-- Returns {dropped, deferred, why}: the IDs that it removed; those whose bucket this user can't read, which are now due later; and Redis's
-- reason. IDs that have a bucket by now, have left the pool, or can't be read and were rescheduled are in neither list.
-- Errors: WRONGTYPE of the pool, NOPERM, READONLY. Nothing has changed then.
-- Atomic because an ID may be pushed again between the check and the removal.
-- Cost: O(log n) of the pool for each ID.
-- include: guard pool
local FIRST = 3
local CHUNK = 3500 -- unpack fails near 8,000, and a deferred job takes two values

local found_at, retry_from = tonumber(ARGV[1]), tonumber(ARGV[2])
local err = not_writable() or not_permitted('ZREM', pool, '') or all_unreadable()
if err then return err end
local dropped, deferred, why = {}, {}, ''
local seen = {}
for first = FIRST, #ARGV, CHUNK do
  local last = math.min(first + CHUNK - 1, #ARGV)
  local scores = redis.call('ZMSCORE', pool, unpack(ARGV, first, last))
  local gone, entries = {}, {} -- entries of the pool: score, ID, score, ID, …
  for i = first, last do
    local id, score = ARGV[i], scores[i - first + 1]
    local topic = score and not seen[id] and redis.pcall('HGET', buckets .. id, 'topic')
    if not score or seen[id] or type(topic) == 'string' then
      -- stays, or has left
    elseif not unreadable(topic) then
      gone[#gone + 1] = id
      dropped[#dropped + 1] = id
    elseif score - found_at <= 0 then
      entries[#entries + 1], entries[#entries + 2] = retry_score(retry_from, #deferred), id
      deferred[#deferred + 1] = id
      why = topic.err .. ' (job bucket ' .. buckets .. id .. ')'
    end
    seen[id] = true
  end
  if #gone > 0 then redis.call('ZREM', pool, unpack(gone)) end
  if #entries > 0 then redis.call('ZADD', pool, unpack(entries)) end
end
return {dropped, deferred, why}
