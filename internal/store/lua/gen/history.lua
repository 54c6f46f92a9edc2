-- history: reads the work of all servers in the last hour.
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local MOST = 1000
if redis.call('HLEN', KEYS[1]) > MOST then return {now} end
local reply = redis.call('HVALS', KEYS[1])
table.insert(reply, 1, now)
return reply
