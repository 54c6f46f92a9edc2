-- get: reads a job, or a dead letter.
--
-- KEYS[1] job pool   KEYS[2] the job's bucket   KEYS[3] the dead letter   ARGV[1] the ID
-- Returns {state, topic, body, ttl, due, attempts, maximum attempts, error, reason, token, ttr, followed, headers}, or {} if there is no such job: the
-- state; the lifetime left (ms), -1 for no end; when it is due, its lease ends, or it was buried (Unix s), '' if it is ready; maximum
-- attempts and ttr (ms) of its producer, 0 for none; 1 if it has a follower, else 0; its headers as JSON, '' for none.
-- Errors: WRONGTYPE, NOPERM.
-- Atomic so that state and content match. Cost: O(1).
-- include: lease
local function fields_of(key)
  return redis.call('HMGET', key, 'topic', 'body', 'lease', 'options', 'error', 'reason', 'died')
end

local job, key, due = fields_of(KEYS[2]), KEYS[2], ''
local state = READY
if job[1] then
  local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
  if score then
    due, state = score, job[3] and is_lease(score) and RESERVED or WAITING
  end
else
  job, key, state = fields_of(KEYS[3]), KEYS[3], DEAD
  if not job[1] then return {} end
  due = string.format('%.3f', (job[7] or 0) / 1000)
end
local attempts, token = read_lease(job[3])
local most, ttr, _, headers = read_options(job[4])
return {state, job[1], job[2] or '', redis.call('PTTL', key), due, attempts, most, job[5] or '', job[6] or '', token, ttr,
  state ~= DEAD and has_follower(job[3]) and 1 or 0, headers}
