-- heartbeat: says that a server runs, and how it fares.
--
-- KEYS[1] the hash of servers
-- ARGV[1] the server's ID
-- ARGV[2] since when it runs (Unix ms), or, if negative, since how long (ms)
-- ARGV[3] the time between its passes (ms)   ARGV[4] the rest of its entry, JSON without the first {
-- ARGV[5] 1 if the entries of servers that are gone are to be deleted, and what is no entry
-- ARGV[6] the last hour of all servers, a hash   ARGV[7] the number of acknowledged jobs: keys of which
--         the user may have no right, so that it is left out what happened
--
-- Returns since when it runs (Unix ms).
-- Errors: WRONGTYPE, a permission that is missing, before anything is written.
--
-- Atomic so that no entry is deleted that was renewed meanwhile, and so that what the server has done
-- since its last entry is recorded once, however often it has to be said.
-- Cost: O(1); O(servers), and a bounded number of them, if entries are to be deleted.
local servers = KEYS[1]
local STALE = 60000 -- ms; see ServerState.Stale
local MOST = 60000  -- no server has a longer interval

-- Whether the server has been silent for longer than it would be. (A time to come is that of
-- a clock which was set back.)
local function is_gone(entry)
  local written, interval = string.match(entry or '', '^{"now":(%d+),"started":%d+,"interval":(%d+),')
  return not written or interval - MOST > 0 or math.abs(now - written) > math.max(STALE, 2 * interval)
end

local gone = {}
if ARGV[5] == '1' then
  local entries = server_entries(servers)
  for k = 1, #entries, 2 do
    if is_gone(entries[k + 1]) then gone[#gone + 1] = entries[k] end
  end
end

local started = tonumber(ARGV[2])
if started < 0 then started = now + started end
local err = not_permitted('HSET', servers, ARGV[1], '')
if err then return err end
local before = redis.pcall('HGET', servers, ARGV[1])
-- What has written is not refused at maxmemory, and this frees about as much as it takes.
redis.call('HDEL', servers, ARGV[1], unpack(gone))
redis.call('HSET', servers, ARGV[1], string.format('{"now":%d,"started":%d,"interval":%d,', now, started, ARGV[3] + 0) .. ARGV[4])
record(ARGV[6], ARGV[7], before, ARGV[4], tonumber(ARGV[2]) < 0)
return started
