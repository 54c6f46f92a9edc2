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
    redis.call('LREM', ready, 0, id)
  end
end

-- Milliseconds as a zset score: Unix seconds, with three decimals if need be.
local function score(ms)
  if ms % 1000 == 0 then return string.format('%.0f', ms / 1000) end
  return string.format('%.3f', ms / 1000)
end

-- Puts id where a job belongs that falls due at due (ms): into the pool, or,
-- if that is no later than now (ms), straight into its ready queue.
local function put(pool, ready, id, due, now)
  if due > now then
    redis.call('ZADD', pool, score(due), id)
  else
    redis.call('ZREM', pool, id)
    redis.call('LPUSH', ready, id)
  end
end

-- Tells the servers of a job in the pool if it is the next to fall due, for they
-- sleep until the one that was. A channel that may not be written to is no
-- reason to fail, as they look by themselves, too.
local function tell(pool, id, due, now, channel)
  if redis.call('ZRANGEBYSCORE', pool, '(' .. score(now), '+inf', 'LIMIT', 0, 1)[1] == id then
    redis.pcall('PUBLISH', channel, string.format('%.0f', due - now))
  end
end
