-- servers: reads the entries of servers that run, or did lately.
local MAX_SERVERS, MAX_ENTRY = 250, 8192
local function server_entries(servers)
  local list = {}
  for _, field in ipairs(redis.call('HRANDFIELD', servers, MAX_SERVERS)) do
    local small = #field <= MAX_ENTRY and redis.call('HSTRLEN', servers, field) <= MAX_ENTRY
    list[#list + 1], list[#list + 2] = field, small and redis.call('HGET', servers, field)
  end
  return list
end
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local entries = server_entries(KEYS[1])
local reply = {now}
for k = 1, #entries, 2 do
  if entries[k + 1] then reply[#reply + 1], reply[#reply + 2] = entries[k], entries[k + 1] end
end
return reply
