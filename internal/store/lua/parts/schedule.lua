-- Schedules. A schedule is a job that a server fires when it is due: it stores the occurrence's job, and sets the next due time. Only a
-- bucket with a revision is one. Beside topic and body, its spec, it has
--   zone to content missed overlap jitter options source   as it was made: options are those of its jobs, jitter in ms
--   revision   when it was changed last (Unix µs): who fires it must have read this one
--   next       the occurrence that it is due for (Unix ms), whatever its score is
--   old        specs that it had before, with occurrences since next that were not fired, the oldest first; a line each:
--              "<until when (Unix ms)> <the first occurrence of the spec after it (Unix ms)> <zone> <spec>". May be empty or absent
--   paused     since when it is (Unix ms)
--   last       the ID of its last job
--   ran late overlapped paused_out   how many occurrences had a job, and how many none, by reason
--   past       the last ten occurrences, see remember
-- include: guard time

local function schedule_id(name) return '{' .. name .. '}@schedule' end

local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end

-- The next names of schedules behind one, '' to begin; and the last of them, '' if there are no more.
local function names_behind(name, most)
  local names = redis.call('ZRANGE', schedules, name == '' and '-' or '(' .. name, '+', 'BYLEX', 'LIMIT', 0, most)
  return names, #names == most and names[most] or ''
end

-- Why a schedule's jobs can't be put into their queue, or be stored at all, as an error reply; or nil. The first write tells that Redis is
-- full.
local function no_queue(topic)
  return not_a_list(queues .. topic, redis.pcall) or not_permitted('LPUSH', queues .. topic, '')
end

local function no_bucket(bucket)
  return not_permitted('PEXPIRE', bucket, '1') or not_permitted('HSET', bucket, 'topic', '') or not_permitted('EXISTS', bucket)
end

-- Stores the bucket of a job that is due then (Unix ms), unless there is one of that ID. Returns whether it did: the caller then puts
-- the job where it belongs, and registers its topic.
local function store_bucket(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return false end
  local lifetime = DEFAULT_LIFETIME
  if not options or options == DEFAULT_OPTIONS then
    redis.call('HSET', name, 'topic', topic, 'body', content)
  else
    redis.call('HSET', name, 'topic', topic, 'body', content, 'options', options)
    lifetime = tonumber(string.match(options, '^%d+ %d+ (%d+)$')) or lifetime
  end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  return true
end

-- Adds occurrences to the text of the last ten, each "<Unix ms><what><late by, ms>", what being r, it had a job; n, somebody ran it then;
-- l, it was too late; o, the job before was not done; p, the schedule was paused.
local REMEMBERED = 10
local function remember(past, occurrences)
  if #occurrences == 0 then return past or '' end
  local text = table.concat(occurrences, ' ')
  if past and past ~= '' then text = past .. ' ' .. text end
  local begins, at = {1}, string.find(text, ' ', 1, true)
  while at do
    begins[#begins + 1], at = at + 1, string.find(text, ' ', at + 1, true)
  end
  return string.sub(text, begins[math.max(#begins - REMEMBERED + 1, 1)])
end
