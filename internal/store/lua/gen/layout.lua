-- layout: stores how many partitions there are, unless that is stored already.
local kept = redis.call('HGET', KEYS[1], 'partitions')
if kept then return kept end
redis.call('HSET', KEYS[1], 'partitions', ARGV[1])
return ARGV[1]
