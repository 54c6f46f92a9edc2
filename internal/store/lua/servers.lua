-- servers: the entries of the servers that run, or did lately; it changes nothing.
--
-- KEYS[1] the hash of servers
--
-- Returns {now, ID, entry, ID, entry, …}: now is Redis's time (Unix ms).
-- Errors: WRONGTYPE, a permission that is missing.
--
-- One script so that the entries and the time are of one moment.
-- Cost: O(servers), of which it looks at a bounded number.
-- include: time: now; servers: server_entries
local entries = server_entries(KEYS[1])
local reply = {now}
for k = 1, #entries, 2 do
  if entries[k + 1] then reply[#reply + 1], reply[#reply + 2] = entries[k], entries[k + 1] end
end
return reply
