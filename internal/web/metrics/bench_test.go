package metrics

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
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

// BenchmarkScrape measures a scrape like Prometheus's, with 1,000 topics that this process has also counted,
// and the part spent reading Redis. Busy topics have ready jobs and dead letters. The target is 20 ms.
func BenchmarkScrape(b *testing.B) {
	const topics = 1000
	for _, c := range []struct{ jobs, busy int }{{10000, 1000}, {1000000, 1000}, {1000000, 100}} {
		b.Run(fmt.Sprintf("jobs=%d,busy=%d", c.jobs, c.busy), func(b *testing.B) {
			pool := redistest.Start(b).Pool()
			conn := pool.Get()
			defer conn.Close()
			many(b, conn, c.jobs, topics, c.busy)
			op := inspect.New(pool, "", fleet.Layout{})
			m := New(op, Options{})
			for n := range topics {
				topic := fmt.Sprint("topic", n+1)
				m.Pushed(topic, 1)
				m.Moved(topic, server.Moved{Jobs: 2, Returned: 1})
			}
			handler := m.Area().Handler
			var looks, scrapes []time.Duration
			for b.Loop() {
				started := time.Now()
				_, err := op.Counts(context.Background())
				check(b, err)
				looks = append(looks, time.Since(started))
				r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
				r.Header.Set("Accept-Encoding", "gzip")
				started = time.Now()
				handler.ServeHTTP(w, r)
				scrapes = append(scrapes, time.Since(started))
				if unzipped, err := gzip.NewReader(w.Body); err != nil {
					b.Fatal(err)
				} else if n, _ := io.Copy(io.Discard, unzipped); n < 200*topics {
					b.Fatalf("%d bytes", n)
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(milliseconds(looks, 0.01), "look-p1-ms")
			b.ReportMetric(milliseconds(scrapes, 0.01), "scrape-p1-ms")
			b.ReportMetric(milliseconds(looks, 0.5), "look-p50-ms")
			b.ReportMetric(milliseconds(scrapes, 0.5), "scrape-p50-ms")
			b.ReportMetric(milliseconds(scrapes, 0.99), "scrape-p99-ms")
		})
	}
}

func milliseconds(times []time.Duration, quantile float64) float64 {
	slices.Sort(times)
	return times[int(quantile*float64(len(times)-1))].Seconds() * 1000
}

// BenchmarkObserver moves 100,000 due jobs alternately with and without Metrics as the server's Observer. The
// target is an overhead of 3 %.
func BenchmarkObserver(b *testing.B) {
	const jobs = 100000
	for _, topics := range []int{8, 1000} {
		b.Run(fmt.Sprint("topics=", topics), func(b *testing.B) {
			pool := redistest.Start(b).Pool()
			conn := pool.Get()
			defer conn.Close()
			move := func(o server.Observer) time.Duration {
				due(b, conn, jobs, topics)
				s := server.New(pool, server.Options{Observer: o})
				started := time.Now()
				check(b, s.Pass(context.Background()))
				return time.Since(started)
			}
			m := New(inspect.New(pool, "", fleet.Layout{}), Options{})
			var with, without []time.Duration
			for turn := 0; b.Loop(); turn++ {
				if turn%2 == 0 {
					without = append(without, move(nil))
					with = append(with, move(m))
				} else {
					with = append(with, move(m))
					without = append(without, move(nil))
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(jobs/milliseconds(without, 0.5)*1000, "jobs/s-without")
			b.ReportMetric(jobs/milliseconds(with, 0.5)*1000, "jobs/s-with")
			b.ReportMetric((milliseconds(with, 0.5)/milliseconds(without, 0.5)-1)*100, "%-dearer")
		})
	}
}

var dueScript = redis.NewScript(0, `
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  redis.call('HMSET', 'delayer:job_bucket:' .. n, 'topic', 'topic' .. n % ARGV[3], 'body', 'body')
  redis.call('ZADD', 'delayer:job_pool', 1700000000 + n / 1000, n)
end`)

// due replaces the contents of Redis with due jobs.
func due(tb testing.TB, conn redis.Conn, jobs, topics int) {
	tb.Helper()
	_, err := conn.Do("FLUSHALL")
	check(tb, err)
	const chunk = 10000
	for n := 0; n < jobs; n += chunk {
		_, err := dueScript.Do(conn, min(chunk, jobs-n), n, topics)
		check(tb, err)
	}
}
