-- pause: pauses a topic. Its ready jobs are parked, also those that become ready later.
--
-- KEYS[1] job pool
-- ARGV[1] the topic   ARGV[2] 'pause', by an operator: replaces the previous end and note. 'new pause': changes nothing if an operator has
--   paused it otherwise. 'throttle', by a consumer: shortens nothing
-- ARGV[3] how long (ms), 0 for no end
-- ARGV[4] the note
-- Returns 1, or 0 if a new pause was refused. Errors: WRONGTYPE of the queue or the pool, OOM, NOPERM. Nothing has changed then.
-- Atomic because no job may be taken between the entry and the move of the queue.
-- Cost: O(1); if some jobs are parked already, O(entries of the queue), AT_ONCE at most: servers park the rest.
-- include: guard pause time topics cluster
local AT_ONCE = 1000 -- entries
local TOLD = '1000'  -- ms; by then servers read when the pause ends
local topic, how, ms = ARGV[1], ARGV[2], tonumber(ARGV[3])
local err = not_pausable() or not_a_list(queues .. topic) or not_a_list(parked_queues .. topic) or pause_elsewhere(topic)
if err then return err end
local text = redis.call('HGET', pauses, topic)
local p = text and read_pause(text)
p = p or {since = 0, ends = 0, throttled = 0, throttle_ends = 0, note = ''}
if how == PAUSE or how == NEW_PAUSE then
  local is_over = p.since == 0 or p.ends > 0 and p.ends <= now
  local is_same = p.ends == 0 and ms == 0 and p.note == ARGV[4]
  if how == NEW_PAUSE and not is_over and not is_same then return 0 end
  if is_over then p.since = now end
  p.ends, p.note = ms > 0 and now + ms or 0, ARGV[4]
elseif how == THROTTLE then
  if p.throttle_ends <= now then p.throttled = now end
  p.throttle_ends = math.max(p.throttle_ends, now + ms)
end
redis.call('HSET', pauses, topic, pause_text(p))
hold(topic, AT_ONCE)
register_use(topic, now / 1000, now / 1000)
redis.pcall('PUBLISH', first_due_channel, TOLD)
return 1
