-- Jobs that are set aside, on their way to another partition. There is one batch of them at a time.

local BATCH_BYTES = 256 * 1024
local batch_bytes, batched = 0, 0

-- The batch: its serial number, 1 if it was there before this call, and of each job w, r or d, as it was waiting, ready
-- or dead; its ID; when it is due, its order, or when it was buried; for how long it is kept (ms), negative for ever; and its fields.
-- o is none: a push of that ID counts alone until then (Unix ms). Nor is g: the group of that tag takes further pushes. A job that has expired is not told any more.
-- include: keys: migration aside aside_jobs
local function tell_batch(reply, was_there)
  local entries = redis.call('HGETALL', aside)
  reply[1], reply[2] = redis.call('HGET', migration, 'serial') or '0', was_there and 1 or 0
  for i = 1, #entries, 2 do
    local entry, name = entries[i], aside_jobs .. entries[i]
    local kind, fields = string.sub(entry, 1, 1), redis.call('HGETALL', name)
    if #fields > 0 or kind == 'o' then
      reply[#reply + 1] = {kind, string.sub(entry, 2), entries[i + 1], redis.call('PTTL', name), fields}
    end
  end
  return reply
end

-- Whether jobs can't be set aside and told.
-- include: keys: migration aside aside_jobs; guard: not_permitted not_writable all_unreadable
local function not_settable_aside()
  return not_writable() or all_unreadable() or not_permitted('RENAME', aside_jobs, aside_jobs) or not_permitted('HSET', aside, 'a', '')
    or not_permitted('HSET', migration, 'a', '') or not_permitted('HSTRLEN', aside_jobs, 'body') or not_permitted('HDEL', aside_jobs, 'a')
    or not_permitted('HGETALL', aside_jobs) or not_permitted('PTTL', aside_jobs)
end

-- Enters something among what is set aside.
-- include: batched; keys: migration aside; time: now_us
local function enter_aside(entry, at)
  if batched == 0 then
    local last = tonumber(redis.call('HGET', migration, 'serial') or 0)
    redis.call('HSET', migration, 'serial', string.format('%.0f', math.max(last + 1, now_us)))
  end
  redis.call('HSET', aside, entry, at)
  batched = batched + 1
end

-- Sets a hash aside, as that entry.
-- include: batch_bytes enter_aside; keys: aside_jobs
local function put_aside(name, entry, at)
  redis.call('RENAME', name, aside_jobs .. entry)
  enter_aside(entry, at)
  batch_bytes = batch_bytes + (redis.call('HSTRLEN', aside_jobs .. entry, 'body') or 0) + 2 * #entry
end

-- Sets the dead letter of that ID aside, if there is one.
-- include: put_aside; keys: dead_letters dead_lists; time: now; dead: unlist
local function set_letter_aside(id)
  local topic = redis.pcall('HGET', dead_letters .. id, 'topic')
  if type(topic) ~= 'string' then return end
  local died = redis.pcall('ZSCORE', dead_lists .. topic, id)
  put_aside(dead_letters .. id, 'd' .. id, type(died) == 'string' and died or now)
  unlist(topic, id)
end

-- Sets aside that a push of the ID counts alone, if it does.
-- include: enter_aside; keys: once; time: now
local function set_once_aside(id)
  local until_ms = redis.call('ZSCORE', once, id)
  if not until_ms then return end
  redis.call('ZREM', once, id)
  if tonumber(until_ms) > now then enter_aside('o' .. id, until_ms) end
end

-- Drops what the bucket says of leases if the job was pushed anew by somebody who left that. By another partition's clock it
-- could not be told any more.
-- include: lease: read_lease pushed_anew
local function drop_old_lease(name)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local _, _, _, expires = read_lease(text)
  if pushed_anew(redis.call('PTTL', name), expires) then redis.call('HDEL', name, 'lease', 'options', 'error', 'next', 'next_body') end
end
