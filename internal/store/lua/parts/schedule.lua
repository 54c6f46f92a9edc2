-- Schedules. A schedule is a job that a server fires when it is due: it stores the occurrence's job and sets the next due time. A bucket with a
-- revision is one. Besides topic and body, which is its spec, it has
--   zone to content missed overlap jitter options source   as it was set; options apply to its jobs, jitter is in ms
--   revision   when it last changed (Unix µs): a server must have read this one to fire it
--   next       the occurrence that it is due for (Unix ms), whatever its score is
--   old        previous specs with unfired occurrences since next, the oldest first, one per line:
--              "<until when (Unix ms)> <first occurrence of the spec after it (Unix ms)> <zone> <spec>". May be empty or absent
--   paused     since when it is paused (Unix ms)
--   last       the ID of its last job
--   ran late overlapped paused_out   how many occurrences have a job, and how many have none, by reason
--   past       the last ten occurrences: see remember
-- include: guard time

local function schedule_id(name) return '{' .. name .. '}@schedule' end

local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end

-- The next names of schedules behind one, '' for the first ones; and the last of them, '' if there are no more.
local function names_behind(name, most)
  local names = redis.call('ZRANGE', schedules, name == '' and '-' or '(' .. name, '+', 'BYLEX', 'LIMIT', 0, most)
  return names, #names == most and names[most] or ''
end

-- Why a schedule's jobs can't be put into their queue, or can't be stored, as an error reply; or nil. A full Redis shows at the first
-- write.
local function no_queue(topic)
  return not_a_list(queues .. topic, true) or not_permitted('LPUSH', queues .. topic, '')
end

local function no_bucket(bucket)
  return not_permitted('PEXPIRE', bucket, '1') or not_permitted('HSET', bucket, 'topic', '') or not_permitted('EXISTS', bucket)
end

-- Stores the bucket of a job that is due then (Unix ms), unless the ID exists. Returns whether it did; the caller then puts the job into the
-- pool or its queue, and registers its topic.
local function store_bucket(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return false end
  local lifetime = DEFAULT_LIFETIME
  if not options or options == DEFAULT_OPTIONS then
    redis.call('HSET', name, 'topic', topic, 'body', content)
  else
    redis.call('HSET', name, 'topic', topic, 'body', content, 'options', options)
    lifetime = tonumber(string.match(options, '^%d+ %d+ (%d+)')) or lifetime
  end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  return true
end

-- Adds occurrences to the text of the last ten, each as "<Unix ms><what><lateness, ms>". what is r for a job; n for a run by hand; l for too
-- late; o for overlapped: the previous job was not done; p for paused.
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
