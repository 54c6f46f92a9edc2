-- Positions in sorted sets.

-- Whether a sorts before b, byte by byte, as in a sorted set. (Lua compares by the server's locale.)
local function stands_before(a, b)
  for i = 1, math.min(#a, #b) do
    local of_a, of_b = string.byte(a, i), string.byte(b, i)
    if of_a ~= of_b then return of_a < of_b end
  end
  return #a < #b
end

-- How many entries of a sorted set are before a position, which is a score and an ID. A page so starts where the last one ended, even if that
-- entry has left. O(log² n) where many entries have the same score.
local function entries_before(set, score, id)
  local low = redis.call('ZCOUNT', set, '-inf', '(' .. score)
  local high = redis.call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local entry = redis.call('ZRANGE', set, middle, middle)[1]
    if stands_before(entry, id) then low = middle + 1 else high = middle end
  end
  return low
end

-- Where the next page of a sorted set starts: behind that position, or at its beginning if the score is ''. (Nothing sorts between an ID and
-- the same with a zero byte.)
local function page_after(set, score, id)
  return score == '' and 0 or entries_before(set, score, id .. '\0')
end
