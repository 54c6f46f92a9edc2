-- drop_dead: deletes dead letters.
local protected = rawget(_G, 'pcall')
local function not_permitted(command, ...)
  if not redis.acl_check_cmd then return nil end
  local is_known, may = protected(redis.acl_check_cmd, command, ...)
  if not is_known then return redis.error_reply('ERR unknown command ' .. command .. ': this Redis has it renamed or disabled') end
  if not may then return redis.error_reply('NOPERM this user has no permissions to run ' .. table.concat({command, (...)}, ' on ')) end
end
local pool = KEYS[1]
local prefix = string.sub(pool, -8) == 'job_pool' and string.sub(pool, 1, -9) or string.match(pool, '^(.*)dead_topics$') or string.match(pool, '^(.*)servers$')
local dead_letters = prefix .. 'dead_letter:'
local dead_topics = prefix .. 'dead_topics'
local list, topic = KEYS[2], ARGV[1]
local err = not_permitted('ZREM', list, '')
if err then return err end
local scores = redis.call('ZMSCORE', list, unpack(ARGV, 3))
local names, ids = {}, {}
for k = 1, #scores do
  if scores[k] and scores[k] - ARGV[2] <= 0 then
    ids[#ids + 1], names[#names + 1] = ARGV[k + 2], dead_letters .. ARGV[k + 2]
  end
end
if #ids == 0 then return 0 end
redis.call('DEL', unpack(names))
local dropped = redis.call('ZREM', list, unpack(ids))
if redis.pcall('EXISTS', list) == 0 then redis.pcall('ZREM', dead_topics, topic) end
return dropped
