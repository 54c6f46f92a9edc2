-- Dead letters.
-- include: time

-- Removes an ID from its topic's dead letters.
local function unlist(topic, id)
  local list = dead_lists .. topic
  redis.pcall('ZREM', list, id)
  if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
end

-- Makes a job a dead letter: renames its bucket and lists it under its topic. It replaces an older letter of the ID. Returns an error reply
-- if that fails; then nothing has changed. A write has to come first, since at maxmemory Redis refuses the first one. The caller then
-- lets the job's follower take its place: see follow_up.
local function bury(id, bucket, topic, reason, text, has_follower)
  local letter, list = dead_letters .. id, dead_lists .. topic
  if has_follower then
    -- include: follow: not_followable; cluster: elsewhere
    local err = not_followable(id, letter) or elsewhere(buckets)
    if err then return err end
  end
  local was = redis.pcall('HGET', letter, 'topic')
  local listed = redis.pcall('ZADD', list, string.format('%d', now), id)
  if type(listed) == 'table' then
    return redis.error_reply(listed.err .. ' (dead letters ' .. list .. ')')
  end
  local renamed = redis.pcall('RENAME', bucket, letter)
  if renamed.err then
    if was ~= topic then unlist(topic, id) end
    return redis.error_reply(renamed.err .. ' (RENAME to ' .. dead_letters .. '…)')
  end
  if type(was) == 'string' and was ~= topic then unlist(was, id) end
  redis.pcall('HSET', letter, 'reason', reason, 'died', string.format('%d', now))
  if text ~= '' then redis.pcall('HSET', letter, 'error', text) end
  redis.pcall('PERSIST', letter)
  redis.pcall('ZADD', dead_topics, 'NX', string.format('%d', now), topic)
end
