-- What the pushes say that count once, in short, where others of their IDs are to be told apart from them. To be defined where some are: all
-- others do without.

-- Whether the push of the ID that counts said something else. That is not known of one without such a text, and where it could not be stored.
-- include: keys: once once_contents
local function said_otherwise(id, said)
  local until_ms = redis.call('ZSCORE', once, id)
  local counts = until_ms and redis.pcall('HGET', once_contents .. id, 'of')
  local first = type(counts) == 'string' and string.match(counts, '^' .. until_ms .. ' (.*)$')
  return first and first ~= said
end

-- Keeps what a push says that was entered just now, for as long as it counts (ms).
-- include: keys: once once_contents
local function keep_said(id, said, window)
  local until_ms = redis.call('ZSCORE', once, id)
  redis.pcall('HSET', once_contents .. id, 'of', until_ms .. ' ' .. said)
  redis.pcall('PEXPIRE', once_contents .. id, string.format('%d', window))
end
