-- drop: removes orphans from the pool: due IDs whose bucket is gone, has no topic, or is no hash.
local pool = KEYS[1]
local function not_writable()
  local reply = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '')
  if type(reply) == 'table' and not string.find(reply.err, 'OOM ', 1, true) then return reply end
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function all_unreadable()
  local reply = redis.pcall('HGET', pool, 'topic')
  if unreadable(reply) then return reply end
end
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local function retry_score(from, k)
  return string.format('%.3f', (from + math.floor(k / 10)) / 1000)
end
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
