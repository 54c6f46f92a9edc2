-- register: stores the program of a waiting client.
if redis.call('PEXPIRE', KEYS[1], ARGV[1]) == 0 then
  redis.call('LPUSH', KEYS[1], ARGV[4], ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
