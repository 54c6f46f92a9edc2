-- The bodies of large groups as strings.
--
-- Redis reads every byte of every string that Lua makes, so a large group costs its body three times: as read, without its end, and with what
-- is added. The body of an open large group is therefore also kept as a string, to which Redis itself appends; Lua makes only one string. It
-- may vanish at any time, and is valid if it is as long as the body: other changes to a body do not know it.
-- include: guard

local TEXT_KEPT = 60000 -- ms

-- The length of the group's body if it is kept as a string, else nil.
local function text_of(id)
  local length = redis.pcall('SETRANGE', texts .. id, 0, '') -- changes nothing
  return type(length) == 'number' and length == redis.pcall('HSTRLEN', buckets .. id, 'body') and length or nil
end

-- Replaces the last byte of a body of this length by more, and returns the new body; nil if that fails.
local function lengthened(id, length, more)
  if redis.pcall('SETRANGE', texts .. id, length - 1, more) ~= length - 1 + #more then return nil end
  local body = redis.pcall('GET', texts .. id)
  return type(body) == 'string' and body or nil
end

-- Keeps the group's body as a string if this user may. Returns whether it does.
local function keep_text(id, body)
  local text = texts .. id
  local err = not_permitted('SETRANGE', text, '0', '') or not_permitted('GET', text) or not_permitted('HSTRLEN', buckets .. id, 'body')
  if err then return false end
  redis.pcall('DEL', text)
  redis.pcall('SETRANGE', text, 0, body)
  redis.pcall('PEXPIRE', text, TEXT_KEPT)
  return true
end
