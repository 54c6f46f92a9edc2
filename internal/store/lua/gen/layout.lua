-- layout: reads how many partitions there are and were, and changes that if the change is allowed. Partition 0 decides; the others have
-- copies for when its node is away.
local protected = rawget(_G, 'pcall')
local function not_permitted(command, key, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, key, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. command .. ' on ' .. key) end
end
local REGISTER_LAYOUT = 'register'
local END_PREVIOUS = 'done'
local COPY_LAYOUT = 'copy'
local kept = redis.call('HMGET', KEYS[1], 'partitions', 'before', 'version', 'most')
local partitions, before, version, most = kept[1] or '0', kept[2] or '0', tonumber(kept[3] or 0), tonumber(kept[4] or 0)
local refused
local function keep(new_partitions, new_before, new_version)
  refused = not_permitted('HDEL', KEYS[1], 'before')
  if refused then return end
  most = math.max(most, partitions, before, new_partitions, new_before, tonumber(ARGV[5]))
  redis.call('HSET', KEYS[1], 'partitions', new_partitions, 'version', new_version, 'most', most)
  if new_before == '0' then redis.call('HDEL', KEYS[1], 'before') else redis.call('HSET', KEYS[1], 'before', new_before) end
  partitions, before, version = new_partitions, new_before, new_version
end
local is_first, follows = partitions == '0', before == '0' and ARGV[3] == partitions
local is_other = partitions ~= ARGV[2] or before ~= ARGV[3]
if ARGV[1] == REGISTER_LAYOUT and is_other and (is_first or follows) then
  keep(ARGV[2], ARGV[3], version + 1)
elseif ARGV[1] == END_PREVIOUS and not is_other and before ~= '0' then
  keep(partitions, '0', version + 1)
elseif ARGV[1] == COPY_LAYOUT and (tonumber(ARGV[4]) > version or tonumber(ARGV[4]) == version and is_other) then
  keep(ARGV[2], ARGV[3], tonumber(ARGV[4]))
end
return refused or {partitions, before, version, most}
