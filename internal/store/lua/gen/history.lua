-- history: what all servers have done in the last hour; it changes nothing.
--
-- KEYS[1] the hash that heartbeat writes
--
-- Returns {now, text, text, …}: now is Redis's time (Unix ms); the texts are in no order.
-- Errors: WRONGTYPE, a permission that is missing.
--
-- One script so that nothing is read of a hash that is not ours, as it is too large.
-- Cost: O(1): 360 fields at most.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local MOST = 1000
if redis.call('HLEN', KEYS[1]) > MOST then return {now} end
local reply = redis.call('HVALS', KEYS[1])
table.insert(reply, 1, now)
return reply
