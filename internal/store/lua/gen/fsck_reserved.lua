-- fsck_reserved: corrects the numbers of some topics' reserved jobs.
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local reserved_counts = prefix .. 'reserved'
local LIMIT_MARK = 1099511627776
local function lowered(kept)
  local raised = math.floor(kept / LIMIT_MARK + 0.5) * LIMIT_MARK
  return kept - raised, raised
end
local err = not_permitted('HINCRBY', reserved_counts, '', '0') or not_permitted('HDEL', reserved_counts, '')
if err then return err end
local repaired = {}
for i = 1, #ARGV, 3 do
  local topic, was, leases = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2])
  if (redis.call('HGET', reserved_counts, topic) or '0') == was then
    local count = lowered(tonumber(was) or 0)
    if redis.call('HINCRBY', reserved_counts, topic, string.format('%d', leases - count)) == 0 then redis.call('HDEL', reserved_counts, topic) end
    repaired[#repaired + 1] = topic
  end
end
return repaired
