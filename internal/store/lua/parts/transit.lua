-- Jobs in transit to another partition. There is one batch at a time.
-- include: dead guard lease time

local BATCH_BYTES = 256 * 1024
local batch_bytes, batched = 0, 0

-- Adds the batch to a reply: its serial number; 1 if it was there before this call, else 0; and of each entry that has not expired its kind,
-- ID, number, how long it is kept (ms; negative for ever), and fields: see adopt.
local function tell_batch(reply, was_there)
  local entries = redis.call('HGETALL', transit)
  reply[1], reply[2] = redis.call('HGET', migration, 'serial') or '0', was_there and 1 or 0
  for i = 1, #entries, 2 do
    local entry, name = entries[i], transit_jobs .. entries[i]
    local kind, fields = string.sub(entry, 1, 1), redis.call('HGETALL', name)
    if #fields > 0 or kind == 'o' then
      reply[#reply + 1] = {kind, string.sub(entry, 2), entries[i + 1], redis.call('PTTL', name), fields}
    end
  end
  return reply
end

-- Why jobs can't be put in transit, or nil.
local function no_transit()
  return not_writable() or all_unreadable() or not_permitted('RENAME', transit_jobs, transit_jobs)
    or not_permitted('HSET', transit, 'a', '') or not_permitted('HSET', migration, 'a', '') or not_permitted('HSTRLEN', transit_jobs, 'body')
    or not_permitted('HDEL', transit_jobs, 'a') or not_permitted('HGETALL', transit_jobs) or not_permitted('PTTL', transit_jobs)
end

-- Adds an entry to the batch; the first one starts it.
local function add_to_batch(entry, at)
  if batched == 0 then
    local last = tonumber(redis.call('HGET', migration, 'serial') or 0)
    redis.call('HSET', migration, 'serial', string.format('%.0f', math.max(last + 1, now_us)))
  end
  redis.call('HSET', transit, entry, at)
  batched = batched + 1
end

-- Moves a hash into the batch as this entry.
local function add_hash(name, entry, at)
  redis.call('RENAME', name, transit_jobs .. entry)
  add_to_batch(entry, at)
  batch_bytes = batch_bytes + (redis.call('HSTRLEN', transit_jobs .. entry, 'body') or 0) + 2 * #entry
end

-- Puts the ID's dead letter in transit, if there is one.
local function take_letter(id)
  local topic = redis.pcall('HGET', dead_letters .. id, 'topic')
  if type(topic) ~= 'string' then return end
  local died = redis.pcall('ZSCORE', dead_lists .. topic, id)
  add_hash(dead_letters .. id, 'd' .. id, type(died) == 'string' and died or now)
  unlist(topic, id)
end

-- Puts in transit that a push of the ID counts once.
local function take_once(id)
  local until_ms = redis.call('ZSCORE', once, id)
  if not until_ms then return end
  redis.call('ZREM', once, id)
  if tonumber(until_ms) > now then add_to_batch('o' .. id, until_ms) end
end

-- Drops the lease fields of a bucket if a client that does not know them has pushed the job again (see pushed_again): another partition's
-- clock could not tell.
local function drop_old_lease(name)
  local text = redis.call('HGET', name, 'lease')
  if not text then return end
  local _, _, _, expires = read_lease(text)
  if pushed_again(redis.call('PTTL', name), expires) then redis.call('HDEL', name, 'lease', 'options', 'error', 'next', 'next_body') end
end
