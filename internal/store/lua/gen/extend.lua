-- extend: sets new ends of held leases.
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
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local buckets = prefix .. 'job_bucket:'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local now_s = now_us / 1000000
local function is_lease(score)
  local part = score * 1000 % 1
  return part > 0.0005 and part < 0.9995 and score - 4294967296 < 0
end
local function unreadable(reply)
  return type(reply) == 'table' and reply.err and not string.find(reply.err, 'WRONGTYPE', 1, true)
end
local function leased_job(score, bucket, topic, token, ...)
  score = score and tonumber(score)
  if not score or score <= now_s or not is_lease(score) then return nil end
  local job = redis.pcall('HMGET', bucket, 'lease', 'topic', ...)
  if unreadable(job) then return nil, job end
  if job[2] == topic and job[1] and string.match(job[1], '^%+?%d+ (%d+)') == token then return job end
end
local function exact_score(us)
  local rest = us % 1000000
  return string.format('%d.%06d', (us - rest) / 1000000, rest)
end
local function lease_end(ms)
  local at = now_us + ms * 1000
  if at % 1000 == 0 then at = at + 1 end
  return at, exact_score(at)
end
local function read_lease(text)
  if not text then return 0, 0, 0, 0 end
  local attempts, token, lent, expires = string.match(text, '^%+?(%d+) (%d+) (%-?%d+) ?(%d*)$')
  return tonumber(attempts) or 0, tonumber(token) or 0, tonumber(lent) or 0, tonumber(expires) or 0
end
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local function lifetime_left(ttl, token, lent)
  if ttl < 0 then return ttl end
  local reserved = math.floor(token / 1000)
  if reserved == 0 or reserved > now then reserved = now end
  return math.max(ttl - lent + now - reserved, 1)
end
--
local LENT = 100
local UNTIL_SEEN = 120000
local function loan(left, length)
  if left < 0 or left >= LENT * length and left - length >= UNTIL_SEEN then return nil end
  return length + math.max(UNTIL_SEEN - left, 0)
end
local function lease_text(attempts, token, lent, left)
  return string.format('%d %d %d %d', attempts, token, lent, left >= 0 and now + left or 0)
end
local slots = prefix .. 'slots:'
local function slot_score(at) return string.format('%.0f', at) end
local ANNOUNCED_WITHIN = 60000
local first_due_channel = prefix .. 'first_due'
local function announce(score, wait)
  if wait > ANNOUNCED_WITHIN then return end
  local overdue_until = time[1] .. '.' .. string.sub('00000' .. time[2], -6)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. overdue_until, '(' .. score)
  if sooner == 0 then redis.pcall('PUBLISH', first_due_channel, string.format('%d', wait)) end
end
local function announce_end(at)
  if at < math.huge then announce(exact_score(at), math.ceil((at - now_us) / 1000)) end
end
local err = not_writable() or not_permitted('PEXPIRE', buckets .. ARGV[2], '1')
  or not_permitted('HSET', buckets .. ARGV[2], 'lease', '')
if err then return err end
redis.call('ZREM', pool, '') -- removes nothing; after a write, Redis refuses nothing at maxmemory
local ends, first_end = {}, math.huge
for i = 1, #ARGV, 4 do
  local id, length = ARGV[i + 1], ARGV[i + 3]
  local name = buckets .. id
  local at = 0
  local before = redis.call('ZSCORE', pool, id)
  local job, unread = leased_job(before, name, ARGV[i], ARGV[i + 2])
  if unread then return unread end
  if job then
    local score
    at, score = lease_end(length)
    local ttl = redis.call('PTTL', name)
    local attempts, token, lent = read_lease(job[1])
    local left = lifetime_left(ttl, token, lent)
    local more = loan(left, length)
    if more then
      local FOLLOWER_BYTE = 43
      local function has_follower(text) return text and string.byte(text) == FOLLOWER_BYTE end
      local FOLLOWER_MARK = '+'
      local function keep_follower(before, text) return has_follower(before) and FOLLOWER_MARK .. text or text end
      redis.call('HSET', name, 'lease', keep_follower(job[1], lease_text(attempts, token, lent + left + more - ttl, left + more)))
      redis.call('PEXPIRE', name, string.format('%d', left + more))
    end
    redis.call('ZADD', pool, score, id)
    if before - score > 0 then redis.pcall('ZADD', slots .. ARGV[i], 'XX', 'LT', slot_score(at), id) end -- see count_slots
    first_end = math.min(first_end, at)
  end
  ends[#ends + 1] = at
end
announce_end(first_end)
return ends
