-- heartbeat: writes a server's entry, and adds the server's work to the last hour.
local ANNOUNCED_WITHIN = 60000
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local STALE_AFTER = 60000
local HISTORY_STEP = 10000
local HISTORY_SLOTS = 360
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local past_hour = prefix .. 'history'
local acked_count = prefix .. 'acked'
local server_states = prefix .. 'servers'
local MAX_SERVERS, MAX_ENTRY = 250, 8192
local function server_entries(servers)
  local list = {}
  for _, field in ipairs(redis.call('HRANDFIELD', servers, MAX_SERVERS)) do
    local small = #field <= MAX_ENTRY and redis.call('HSTRLEN', servers, field) <= MAX_ENTRY
    list[#list + 1], list[#list + 2] = field, small and redis.call('HGET', servers, field)
  end
  return list
end
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end

-- Whether the server has been silent too long. (A time in the future means that the clock was set back.)
local function is_gone(entry)
  local written, interval = string.match(entry or '', '^{"now":(%d+),"started":%d+,"interval":(%d+),')
  return not written or interval - ANNOUNCED_WITHIN > 0 or math.abs(now - written) > math.max(STALE_AFTER, 2 * interval)
end

local function lateness_of(entry)
  local counts = {}
  for count in string.gmatch(string.match(entry or '', '"lateness":%[([%d,]*)%]') or '', '%d+') do
    counts[#counts + 1] = tonumber(count)
  end
  return counts
end

-- Adds a server's work since its last entry to the last hour: field "slot modulo HISTORY_SLOTS" of the hash, "slot acked
-- bucket:count,bucket:count,…" (see History in Go). New slots overwrite old ones. Best effort. A new server has done all of its work just now.
local function record(before, after, is_new)
  local slot, counts = math.floor(now / HISTORY_STEP), {}
  local field = string.format('%d', slot % HISTORY_SLOTS)
  local old = redis.pcall('HGET', past_hour, field)
  local total = redis.pcall('GET', acked_count)
  if type(old) == 'table' or type(before) == 'table' then return end
  local same = old and string.match(old, '^' .. string.format('%d', slot) .. ' %S+ (.*)$')
  for place, count in string.gmatch(same or '', '(%d+):(%d+)') do counts[tonumber(place)] = tonumber(count) end
  local was = lateness_of(before)
  if before or is_new then
    for place, count in ipairs(lateness_of(after)) do
      local more = count - (was[place] or 0)
      if more > 0 then counts[place] = (counts[place] or 0) + more end
    end
  end
  local parts = {}
  for place, count in pairs(counts) do parts[#parts + 1] = string.format('%d:%d', place, count) end
  table.sort(parts)
  local elsewhere = tonumber(ARGV[6])
  if type(total) == 'table' or not string.match(total or '0', '^%d+$') or elsewhere < 0 then
    total = '-'
  elseif elsewhere > 0 then
    total = string.format('%d', (total or 0) + elsewhere)
  end
  redis.pcall('HSET', past_hour, field, string.format('%d ', slot) .. (total or '0') .. ' ' .. table.concat(parts, ','))
  redis.pcall('PEXPIRE', past_hour, HISTORY_STEP * HISTORY_SLOTS)
end

local before = redis.pcall('HGET', server_states, ARGV[1])
local known, there = tonumber(ARGV[5]), redis.pcall('HLEN', server_states)
if type(there) == 'table' then
  there = -1
elseif not before then
  there = there + 1
end
local sweep = known < 0 or there >= 0 and there ~= known

local gone, others = {}, {}
if sweep then
  local entries = server_entries(server_states)
  for k = 1, #entries, 2 do
    if entries[k] == ARGV[1] then
      -- it is renewed below
    elseif is_gone(entries[k + 1]) then
      gone[#gone + 1] = entries[k]
    else
      others[#others + 1], others[#others + 2] = entries[k], entries[k + 1]
    end
  end
end

local started = tonumber(ARGV[2])
if started < 0 then started = now + started end
local err = not_permitted('HSET', server_states, ARGV[1], '')
if err then return err end
-- HDEL first: a script that has written is not refused at maxmemory, and this frees about as much as it takes.
local was = before and 1 or redis.pcall('EXISTS', past_hour) == 0 and -1 or 0
redis.call('HDEL', server_states, ARGV[1], unpack(gone))
redis.call('HSET', server_states, ARGV[1], string.format('{"now":%d,"started":%d,"interval":%d,', now, started, ARGV[3] + 0) .. ARGV[4])
record(before, ARGV[4], tonumber(ARGV[2]) < 0)
there = math.max(there - #gone, -1)
if sweep then return {started, there, was, now, unpack(others)} end
return {started, there, was}
