-- What several scripts share; it is put in front of each of them.

-- How long a ready queue may be for an ID in its middle to be taken out (LREM
-- walks the whole list). In a longer one the ID stays behind, and the take
-- drops it when it comes to it: the bucket, not the list, says what is ready.
local WITHDRAW_FROM = 10000

-- The last due time (Unix ms) that a score holds exactly.
local LAST_MS = 2 ^ 53

-- Redis's own clock, in seconds with microseconds.
local function clock()
  local t = redis.call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1000000
end

-- An error reply if key is neither absent nor a list, else nil. Asked before
-- the first write, because a script that fails half-way keeps what it wrote.
local function not_a_list(key)
  local type = redis.call('TYPE', key).ok
  if type ~= 'none' and type ~= 'list' then
    return redis.error_reply('WRONGTYPE ready queue ' .. key .. ' is a ' .. type .. ', not a list')
  end
end

-- Whether a pcall's reply is an error that says nothing about the key, such as
-- a permission that is missing. WRONGTYPE does: there is no usable key then.
local function refused(reply)
  return type(reply) == 'table' and reply.err and string.sub(reply.err, 1, 9) ~= 'WRONGTYPE'
end

-- An error reply if the command is not permitted, else nil; asked before the
-- first write too. Redis before 7.0 doesn't tell.
local function not_permitted(command, key, ...)
  if redis.acl_check_cmd and not redis.acl_check_cmd(command, key, ...) then
    return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key)
  end
end

-- Takes id out of a ready queue, unless that is long or no list.
local function withdraw(ready, id)
  local length = redis.pcall('LLEN', ready)
  if type(length) == 'number' and length > 0 and length <= WITHDRAW_FROM then
    redis.pcall('LREM', ready, 0, id)
  end
end

-- Redis's own clock, in ms, rounded up.
local function now_ms()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.ceil(t[2] / 1000)
end

-- Milliseconds as a zset score: Unix seconds, with three decimals if need be.
-- (%.3f of a double takes several times as long.)
local function score(ms)
  local rest = ms % 1000
  if rest == 0 then return string.format('%d', ms / 1000) end
  return string.format('%d.%03d', (ms - rest) / 1000, rest)
end

-- Whether a job that is put into the pool, due at due (ms), will be the next to
-- fall due; an error reply if the pool is none. Asked before the first write.
local function is_next_due(pool, due, now)
  local sooner = redis.pcall('ZCOUNT', pool, '(' .. score(now), score(due))
  if type(sooner) == 'table' then
    return redis.error_reply(sooner.err .. ' (job pool ' .. pool .. ')')
  end
  return sooner == 0
end

-- Tells the servers that a job is now the next to fall due, in so many ms, for
-- they sleep until the one that was. A channel that may not be written to is no
-- reason to fail, as they look by themselves, too.
local function tell(channel, wait)
  redis.pcall('PUBLISH', channel, string.format('%d', wait))
end
