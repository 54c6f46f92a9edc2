-- count_due: counts the pool's entries, leases included, that fall due in spans of time.
local reply = {tonumber(redis.call('TIME')[1])}
for i = 1, #ARGV, 2 do
  reply[#reply + 1] = redis.call('ZCOUNT', KEYS[1], ARGV[i], '(' .. ARGV[i + 1])
end
return reply
