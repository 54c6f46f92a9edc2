-- The bodies of large groups as strings.
--
-- Redis looks at each byte of each string that Lua makes, which is what a large group costs: its body as read, without its end, and with
-- what comes behind. So the body of an open large group is kept as a string, too, to which Redis itself adds; Lua makes one of the three.
-- It may be gone at any time, and counts if it is as long as the body: what else changes a body does not know it.
-- include: guard

local TEXT_KEPT = 60000 -- ms

-- The length of the group's body, if it is kept as a string; else nil.
local function text_of(id)
  local length = redis.pcall('SETRANGE', texts .. id, 0, '') -- changes nothing
  return type(length) == 'number' and length == redis.pcall('HSTRLEN', buckets .. id, 'body') and length or nil
end

-- Puts more in the place of the last byte of a body of that length, and returns it; or nil, if it can't.
local function lengthened(id, length, more)
  if redis.pcall('SETRANGE', texts .. id, length - 1, more) ~= length - 1 + #more then return nil end
  local body = redis.pcall('GET', texts .. id)
  return type(body) == 'string' and body or nil
end

-- Keeps the body of a group as a string, where that is permitted. Returns whether it does.
local function keep_text(id, body)
  local text = texts .. id
  local err = not_permitted('SETRANGE', text, '0', '') or not_permitted('GET', text) or not_permitted('HSTRLEN', buckets .. id, 'body')
  if err then return false end
  redis.pcall('DEL', text)
  redis.pcall('SETRANGE', text, 0, body)
  redis.pcall('PEXPIRE', text, TEXT_KEPT)
  return true
end
