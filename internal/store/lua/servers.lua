-- servers: reads the entries of servers that run, or did lately.
--
-- KEYS[1] the servers
-- Returns {now (Unix ms), ID, entry, ID, entry, …}. Errors: WRONGTYPE, NOPERM.
-- One script so that entries and time match. Cost: O(servers), of which it reads a bounded number.
-- include: servers time
local entries = server_entries(KEYS[1])
local reply = {now}
for k = 1, #entries, 2 do
  if entries[k + 1] then reply[#reply + 1], reply[#reply + 2] = entries[k], entries[k + 1] end
end
return reply
