-- Random entries of the pool: neighbours are often alike.

local PAGE, MAX_BYTES = 100, 256 * 1024 -- entries read at a time where all are; of IDs, which may be large

-- Reads count entries of the pool from a rank on, one of every step entries, and calls visit with ID and score. It ends early if visit returns
-- something, or if IDs are very long. Returns how many entries it read, and what visit returned.
local function sample_pool(rank, count, step, visit)
  local entries_read, bytes = 0, 0
  while entries_read < count and bytes < MAX_BYTES do
    local first, last = rank + entries_read, rank + math.min(entries_read + PAGE, count) - 1
    if step > 1 then
      first = rank + math.floor((entries_read + math.random()) * step)
      last = first
    end
    local entries = redis.call('ZRANGE', pool, first, last, 'WITHSCORES')
    if #entries == 0 then break end
    for i = 1, #entries, 2 do
      entries_read, bytes = entries_read + 1, bytes + #entries[i]
      local ended = visit(entries[i], entries[i + 1])
      if ended then return entries_read, ended end
    end
  end
  return entries_read
end
