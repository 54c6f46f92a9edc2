-- require: keys time guard pause
-- keep_paused: ends the pauses that are over, and sets aside what somebody who doesn't know of the others has made ready.
--
-- KEYS[1] job pool
--
-- Returns {paused, wait, topic, topic, …}: how many topics are paused still; after how long the first pause ends (ms), -1 if none
-- does; and the topics whose pause has ended.
-- Errors: WRONGTYPE of the pool, a permission that is missing; nothing has changed then.
--
-- Any number of servers may do that: the second one finds nothing to do.
-- Atomic because an entry may be in one of both queues only.
-- Cost: O(paused topics), and O(entries that are set aside), at most 1,000; see resume.
local AT_ONCE = 1000
local some = redis.call('HLEN', pauses) > 0
if not some then return {0, -1} end
-- cluster: local missing = elsewhere(pauses)
-- cluster: if missing then return missing end
local err = not_pausable('')
if err then return err end
local entries = redis.call('HRANDFIELD', pauses, 2000, 'WITHVALUES')
local left, wait, ended = 0, math.huge, {}
for i = 1, #entries, 2 do
  local topic, p = entries[i], read_pause(entries[i + 1])
  -- cluster: local is_elsewhere = pause_elsewhere(topic)
  local ends = p and paused_until(p) or 0
  -- cluster: if is_elsewhere then ends = now + 1000 end
  if ends > now then
    left, wait = left + 1, math.min(wait, ends - now)
    -- cluster: if not is_elsewhere then
    hold(topic, AT_ONCE)
    -- cluster: end
  else
    redis.call('HDEL', pauses, topic)
    release(topic)
    ended[#ended + 1] = topic
  end
end
return {left, wait < math.huge and wait or -1, unpack(ended)}
