-- layout: reads how many partitions there are, and stores the caller's number if there is none.
local kept = redis.call('HGET', KEYS[1], 'partitions')
if not kept and ARGV[1] ~= '0' then
  kept = ARGV[1]
  redis.call('HSET', KEYS[1], 'partitions', kept)
end
return kept or '0'
