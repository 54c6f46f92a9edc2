-- The hash of servers.

-- How many servers to read, and how long an entry may be, in bytes: anything else is not ours, and must not keep Redis busy.
local MAX_SERVERS, MAX_ENTRY = 250, 8192

-- The hash's entries {field, value, …}. A value that is no entry is false.
local function server_entries(servers)
  local list = {}
  for _, field in ipairs(redis.call('HRANDFIELD', servers, MAX_SERVERS)) do
    local small = #field <= MAX_ENTRY and redis.call('HSTRLEN', servers, field) <= MAX_ENTRY
    list[#list + 1], list[#list + 2] = field, small and redis.call('HGET', servers, field)
  end
  return list
end
