-- drop: takes orphans out of the pool: due IDs whose bucket is gone (expired), has no topic or
-- is no hash.
--
-- KEYS[1] job pool
-- ARGV[1] when the IDs were found to be due (Unix seconds)
-- ARGV[2] from when on those are to be tried again whose bucket this user can't read (Unix ms)
-- ARGV[3…] job IDs
--
-- Returns {dropped, postponed, why}: the IDs that were taken out; those that can't be read, which
-- are due later now, and Redis's reason. An ID that has been given a usable bucket meanwhile, has
-- left the pool or, if unreadable, was scheduled anew, is in neither.
-- Errors: WRONGTYPE of the pool, a permission that is missing, a server that takes no writes,
-- before anything is written.
--
-- Atomic because the ID may be pushed anew between the check and the removal.
-- Cost: O(k log n) for k IDs in a pool of n.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
local FIRST = 3
local CHUNK = 3500 -- unpack fails near 8,000, and a job put back takes two places

local found_at, retry_from = tonumber(ARGV[1]), tonumber(ARGV[2])
local err = not_writable() or all_unreadable()
if err then return err end
local dropped, postponed, why = {}, {}, ''
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
      entries[#entries + 1], entries[#entries + 2] = retry_score(retry_from, #postponed), id
      postponed[#postponed + 1] = id
      why = topic.err .. ' (job bucket ' .. buckets .. id .. ')'
    end
    seen[id] = true
  end
  if #gone > 0 then redis.call('ZREM', pool, unpack(gone)) end
  if #entries > 0 then redis.call('ZADD', pool, unpack(entries)) end
end
return {dropped, postponed, why}
