-- list_schedules: registers the schedules in a running server's file, and reads the lists of the other servers.
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local schedule_lists = prefix .. 'schedule_lists'
local time = redis.call('TIME')
local now_us = time[1] * 1000000 + time[2]
local begun = (now_us - now_us % 1000) / 1000
local now = now_us % 1000 == 0 and begun or begun + 1
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local LISTED, MOST = 150000, 250 -- ms; lists
local reply, gone = {}, {}
for _, id in ipairs(redis.call('HRANDFIELD', schedule_lists, MOST)) do
  local written, names = string.match(redis.call('HGET', schedule_lists, id), '^(%d+)(.*)$')
  if id == ARGV[1] then
    -- it is written below
  elseif not written or math.abs(now - written) > LISTED then
    gone[#gone + 1] = id
  elseif names ~= ARGV[2] then
    reply[#reply + 1] = names
  end
end
if ARGV[2] == '' then return reply end
local err = not_permitted('HDEL', schedule_lists, ARGV[1])
if err then return err end
redis.call('HSET', schedule_lists, ARGV[1], string.format('%d', now) .. ARGV[2])
if #gone > 0 then redis.call('HDEL', schedule_lists, unpack(gone)) end
return reply
