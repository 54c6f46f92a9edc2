package metrics

import (
	"testing"

	"github.com/gomodule/redigo/redis"
)

// manyScript writes ARGV[1] waiting jobs, numbered from ARGV[2], and ARGV[3] topics. The first ARGV[4]
// topics have a ready job and a dead letter.
var manyScript = redis.NewScript(0, `
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  redis.call('HSET', 'delayer:job_bucket:job' .. n, 'topic', 'topic' .. n % ARGV[3], 'body', '{"order":' .. n .. '}')
  redis.call('PEXPIRE', 'delayer:job_bucket:job' .. n, 604800000)
  redis.call('ZADD', 'delayer:job_pool', 9e9 + n, 'job' .. n)
end
if ARGV[2] == '0' then
  for n = 1, ARGV[3] do
    local topic, id = 'topic' .. n, 'ready' .. n
    redis.call('ZADD', 'delayer:topics', 0, topic)
    redis.call('HSET', 'delayer:reserved', topic, n)
    if n <= tonumber(ARGV[4]) then
      redis.call('HMSET', 'delayer:job_bucket:' .. id, 'topic', topic, 'body', 'body')
      redis.call('EXPIRE', 'delayer:job_bucket:' .. id, 604700)
      redis.call('LPUSH', 'delayer:ready_queue:' .. topic, id)
      redis.call('ZADD', 'delayer:dead_letters:' .. topic, 1, id)
    end
  end
end`)

// many fills Redis with waiting jobs and topics, some of them busy.
func many(tb testing.TB, conn redis.Conn, jobs, topics, busy int) {
	tb.Helper()
	const chunk = 10000
	for n := 0; n < jobs; n += chunk {
		_, err := manyScript.Do(conn, min(chunk, jobs-n), n, topics, busy)
		check(tb, err)
	}
}
