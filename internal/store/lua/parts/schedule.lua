-- require: keys time guard pool queue lease topics follow
-- Schedules. One is a job that a server does not move when it falls due, but fires: it stores the job of that moment, and gives
-- the schedule its next due time.

local SCHEDULES = 'delayer:schedules' -- their topic; see ScheduleTopic in Go

-- Beside topic and body, which is the spec, the bucket of a schedule has
--   zone to content missed overlap jitter options source   what it was made with: options as those of its jobs, jitter in ms
--   revision   when that was changed last (Unix µs): whoever fires it must have read this one
--   next       the moment that it is due for (Unix ms), whatever its score is
--   paused     since when it has been (Unix ms)
--   last       the ID of its last job
--   ran late overlapped paused_out   how many moments had a job, and how many had none, by reason
--   past       the last ten moments, see remember
-- Only a bucket with a revision is one.

local function schedule_id(name) return '{' .. name .. '}@schedule' end

local function schedule_name(id) return string.match(id, '^{(.*)}@schedule$') end

-- What keeps a schedule's job from being stored and put into its queue, as an error reply, or nil.
local function not_fireable(topic, id, bucket)
  local full = redis.pcall('ZADD', pool, 'XX', 'GT', '-inf', '') -- changes nothing
  if type(full) == 'table' then return full end
  return not_a_list(queues .. topic) or not_permitted('LPUSH', queues .. topic, '') or not_permitted('PEXPIRE', buckets .. id, '1')
    or not_permitted('HSET', buckets .. id, 'topic', '') or not_permitted('HINCRBY', bucket, 'ran', '1')
end

-- Stores a job, due at a time (Unix ms), unless there is one of that ID. Returns the length of the queue that it is in then, and whether
-- it is stored.
local function store_job(id, topic, content, options, due)
  local name = buckets .. id
  if redis.call('EXISTS', name) == 1 then return nil, false end
  local most, ttr, lifetime = read_options(options)
  redis.call('HSET', name, 'topic', topic, 'body', content)
  if options ~= options_text(0, 0, DEFAULT_LIFETIME) then redis.call('HSET', name, 'options', options_text(most, ttr, lifetime)) end
  redis.call('PEXPIRE', name, string.format('%d', math.max(due - now, 0) + lifetime))
  enter_use(topic, now / 1000, due / 1000)
  if due <= now then return redis.call('LPUSH', queues .. topic, id), true end
  redis.call('ZADD', pool, score_of(due), id)
  announce(score_of(due), due - now)
  return nil, true
end

-- With the overlap 'follow' a moment whose last job is not done has no job of its own: no two run at a time, and after each moment one
-- begins. If somebody has begun the last job, the moment's follows it, under its ID (see follow); the newest one counts. If nobody has, that one
-- stands for the moment, too, where it is: to replace it, as a push does, would put it to the end of its queue again and again.

-- The text of the last job's lease, nil if nobody has begun it, or it is done. An error reply if it can't be followed.
local function lease_of_last(last)
  local job = last and redis.pcall('HMGET', buckets .. last, 'lease')
  if unreadable(job) then return job end
  if not job or not job[1] then return nil end
  local _, _, _, expires = read_lease(job[1])
  local err = not_permitted('PTTL', buckets .. last)
  if not err and pushed_anew(redis.call('PTTL', buckets .. last), expires) then return nil end
  return err or job[1]
end

-- Has a moment's job follow the last one, whose lease has that text.
local function follow_last(last, lease, topic, content, options, due)
  local most, ttr, lifetime = read_options(options)
  enter_follower(buckets .. last, lease, topic, content, due, lifetime, most, ttr)
end

-- Adds moments to the text of the last ten, each "<Unix ms><what><by how much it was late, ms>": what is r, it had a job; n, somebody
-- wanted one then; l, it was too late; o, the job before was not done; p, the schedule was paused.
local REMEMBERED = 10
local function remember(past, moments)
  local all = {}
  for moment in string.gmatch(past or '', '%S+') do all[#all + 1] = moment end
  for _, moment in ipairs(moments) do all[#all + 1] = moment end
  return table.concat(all, ' ', math.max(#all - REMEMBERED + 1, 1))
end
