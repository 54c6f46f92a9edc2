-- Shared, behind clock.

-- Adds what a server has done since its last entry to the last hour of all: field "slot modulo SLOTS"
-- of the hash, "slot acked place:count,place:count,…" (see History in Go). So there are SLOTS fields at
-- most, and an old one is overwritten. Nothing depends on it: what can't be done is left out.
local SLOT, SLOTS = 10000, 360 -- ms; store.historyStep, historySlots

local function lateness_of(entry)
  local counts = {}
  for count in string.gmatch(string.match(entry or '', '"lateness":%[([%d,]*)%]') or '', '%d+') do
    counts[#counts + 1] = tonumber(count)
  end
  return counts
end

--   is_new  whether the server has never had an entry: then it has done all of it just now
local function record(history, acked, before, after, is_new)
  local slot, counts = math.floor(now / SLOT), {}
  local field = string.format('%d', slot % SLOTS)
  local old = redis.pcall('HGET', history, field)
  local total = redis.pcall('GET', acked)
  if type(old) == 'table' or type(before) == 'table' then return end
  local same = old and string.match(old, '^' .. string.format('%d', slot) .. ' %S+ (.*)$')
  for place, count in string.gmatch(same or '', '(%d+):(%d+)') do counts[tonumber(place)] = tonumber(count) end
  local was = lateness_of(before)
  if before or is_new then
    for place, count in ipairs(lateness_of(after)) do
      local more = count - (was[place] or 0)
      if more > 0 then counts[place] = (counts[place] or 0) + more end
    end
  end
  local parts = {}
  for place, count in pairs(counts) do parts[#parts + 1] = string.format('%d:%d', place, count) end
  table.sort(parts)
  if type(total) == 'table' or not string.match(total or '0', '^%d+$') then total = '-' end
  redis.pcall('HSET', history, field, string.format('%d %s %s', slot, total or '0', table.concat(parts, ',')))
  redis.pcall('PEXPIRE', history, SLOT * SLOTS)
end
