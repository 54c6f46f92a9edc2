package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// seedScript writes jobs as the original clients do, ARGV[1] many from number
// ARGV[2] on, over ARGV[3] topics, all due at ARGV[4].
var seedScript = redis.NewScript(0, `
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  local id = redis.sha1hex(tostring(n)):sub(1, 32)
  redis.call('HMSET', 'delayer:job_bucket:' .. id, 'topic', 'topic' .. (n % ARGV[3]), 'body', '{"orderID":"2018101712578956648885474","action":"close"}')
  redis.call('EXPIRE', 'delayer:job_bucket:' .. id, 604801)
  redis.call('ZADD', 'delayer:job_pool', ARGV[4], id)
end`)

func seed(tb testing.TB, conn redis.Conn, jobs, topics int, due float64) {
	tb.Helper()
	if _, err := conn.Do("FLUSHALL"); err != nil {
		tb.Fatal(err)
	}
	const chunk = 10000
	for n := 0; n < jobs; n += chunk {
		if _, err := seedScript.Do(conn, min(chunk, jobs-n), n, topics, fmt.Sprintf("%.3f", due)); err != nil {
			tb.Fatal(err)
		}
	}
}

// floorScript is what Redis itself needs for a move: one script that does
// everything, 1,000 jobs a call, without a client to be told of them.
var floorScript = redis.NewScript(1, `
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1000)
local of_topic = {}
for _, id in ipairs(ids) do
  local topic = redis.call('HGET', 'delayer:job_bucket:' .. id, 'topic')
  local list = of_topic[topic]
  if not list then list = {} of_topic[topic] = list end
  list[#list + 1] = id
end
if #ids > 0 then redis.call('ZREM', KEYS[1], unpack(ids)) end
for topic, list in pairs(of_topic) do redis.call('LPUSH', 'delayer:ready_queue:' .. topic, unpack(list)) end
return #ids`)

// BenchmarkMove compares the pass with the floor, turn by turn, on 100,000 due jobs.
func BenchmarkMove(b *testing.B) {
	const jobs = 100000
	for _, topics := range []int{1, 8, 1000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			redisServer := redistest.Start(b)
			pool := redisServer.Pool()
			conn := pool.Get()
			defer conn.Close()
			past := float64(time.Now().Unix() - 10)
			var floor, ours time.Duration
			for b.Loop() {
				seed(b, conn, jobs, topics, past)
				started := time.Now()
				for n := 1; n > 0; {
					var err error
					if n, err = redis.Int(floorScript.Do(conn, "delayer:job_pool", time.Now().Unix())); err != nil {
						b.Fatal(err)
					}
				}
				floor += time.Since(started)

				seed(b, conn, jobs, topics, past)
				s := New(pool, Options{})
				started = time.Now()
				r, err := s.pass(context.Background(), context.Background())
				ours += time.Since(started)
				if err != nil || r.Moved != jobs {
					b.Fatal(r, err)
				}
			}
			b.ReportMetric(0, "ns/op")
			total := float64(b.N) * jobs
			b.ReportMetric(total/floor.Seconds(), "floor-jobs/s")
			b.ReportMetric(total/ours.Seconds(), "jobs/s")
			b.ReportMetric(floor.Seconds()/ours.Seconds(), "of-floor")
		})
	}
}
