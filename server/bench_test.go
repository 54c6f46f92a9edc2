package server

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// seedScript writes ARGV[1] jobs as the original's clients do. They are numbered from ARGV[2], belong to ARGV[3]
// topics, and are all due at ARGV[4].
var seedScript = redis.NewScript(0, `
for n = ARGV[2], ARGV[2] + ARGV[1] - 1 do
  local id = redis.sha1hex(tostring(n)):sub(1, 32)
  redis.call('HMSET', 'delayer:job_bucket:' .. id, 'topic', 'topic' .. (n % ARGV[3]), 'body', '{"orderID":"2018101712578956648885474","action":"close"}')
  redis.call('EXPIRE', 'delayer:job_bucket:' .. id, 604801)
  redis.call('ZADD', 'delayer:job_pool', ARGV[4], id)
end`)

func seed(tb testing.TB, conn redis.Conn, jobs, topics int, due float64) {
	tb.Helper()
	_, err := conn.Do("FLUSHALL")
	check(tb, err)
	const chunk = 10000
	for n := 0; n < jobs; n += chunk {
		_, err := seedScript.Do(conn, min(chunk, jobs-n), n, topics, fmt.Sprintf("%.3f", due))
		check(tb, err)
	}
}

// floorScript is the minimum work of Redis for a move: one script for everything, 1,000 jobs per call, and no client to
// notify.
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

// BenchmarkMove compares the pass with the floor, in turns, on 100,000 due jobs.
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
				r, err := passOf(s)
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

// BenchmarkBystander makes 1,000,000 jobs fall due at once and measures PINGs on another connection: how much do other
// users of that Redis notice?
func BenchmarkBystander(b *testing.B) {
	const jobs, topics = 1000000, 8
	redisServer := redistest.Start(b)
	pool := redisServer.Pool()
	conn := pool.Get()
	defer conn.Close()
	var pings []time.Duration
	var took time.Duration
	for b.Loop() {
		seed(b, conn, jobs, topics, float64(time.Now().Unix()-10))
		done := make(chan result, 1)
		started := time.Now()
		go func() {
			r, err := passOf(New(pool, Options{}))
			if err != nil {
				b.Error(err)
			}
			took += time.Since(started)
			done <- r
		}()
		for moving := true; moving; {
			select {
			case r := <-done:
				if r.Moved != jobs {
					b.Fatalf("moved %d of %d", r.Moved, jobs)
				}
				moving = false
			default:
				sent := time.Now()
				_, err := conn.Do("PING")
				check(b, err)
				pings = append(pings, time.Since(sent))
				time.Sleep(200 * time.Microsecond)
			}
		}
	}
	slices.Sort(pings)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(b.N)*jobs/took.Seconds(), "jobs/s")
	for _, p := range []struct {
		name string
		rank float64
	}{{"ping-p50-ms", 0.5}, {"ping-p99-ms", 0.99}, {"ping-p99.9-ms", 0.999}, {"ping-max-ms", 1}} {
		b.ReportMetric(milliseconds(quantile(pings, p.rank)), p.name)
	}
}

// quantile returns a quantile of sorted durations.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// BenchmarkLateness makes 500 jobs a second fall due at fractional times, with an interval of 1 s, and measures the
// time from due to taken.
func BenchmarkLateness(b *testing.B) {
	const perSecond = 500
	redisServer := redistest.Start(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go New(redisServer.Pool(), Options{Interval: time.Second}).Run(ctx)
	c := client.OpenPool(client.PoolOptions{Addr: redisServer.Addr})
	defer c.Close()

	var late []time.Duration
	early := 0
	for b.Loop() {
		const jobs = 10 * perSecond
		go func() {
			next := time.NewTicker(time.Second / perSecond)
			defer next.Stop()
			for n := range jobs {
				<-next.C
				due := time.Now().Add(1500*time.Millisecond + time.Duration(n*7919%5000)*time.Millisecond/2)
				body := strconv.FormatInt(due.UnixMicro(), 10)
				if _, err := c.PushAt(ctx, client.Message{Topic: "t", Body: body}, due); err != nil {
					b.Error(err)
				}
			}
		}()
		for range jobs {
			m, err := c.BPop(ctx, time.Minute, "t")
			check(b, err)
			due, err := strconv.ParseInt(m.Body, 10, 64)
			check(b, err)
			delay := time.Since(time.UnixMicro(due))
			if delay < 0 {
				early++
			}
			late = append(late, delay)
		}
	}
	slices.Sort(late)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(early), "early")
	b.ReportMetric(milliseconds(quantile(late, 0.5)), "late-p50-ms")
	b.ReportMetric(milliseconds(quantile(late, 0.99)), "late-p99-ms")
	b.ReportMetric(milliseconds(late[len(late)-1]), "late-max-ms")
}

// BenchmarkServers pushes, moves and pops 500 jobs a second with several servers, and measures the CPU time of Redis.
func BenchmarkServers(b *testing.B) {
	for _, partitions := range []int{1, 16} {
		for servers := 1; servers <= 3; servers++ {
			b.Run(fmt.Sprintf("partitions=%d/servers=%d", partitions, servers), func(b *testing.B) { benchServers(b, partitions, servers) })
		}
	}
}

func benchServers(b *testing.B, partitions, servers int) {
	const perSecond, seconds = 500, 20
	redisServer := redistest.Start(b)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range servers {
		go New(redisServer.Pool(), Options{Partitions: partitions}).Run(ctx)
	}
	c := client.OpenPool(client.PoolOptions{Addr: redisServer.Addr, Partitions: partitions})
	defer c.Close()
	work := func(jobs int) {
		go func() {
			next := time.NewTicker(time.Second / perSecond)
			defer next.Stop()
			for n := range jobs {
				<-next.C
				if _, err := c.Push(ctx, client.Message{Topic: "t", Body: "b"}, 50*time.Millisecond+time.Duration(n*7919%200)*time.Millisecond); err != nil {
					b.Error(err)
				}
			}
		}()
		for range jobs {
			_, err := c.BPop(ctx, time.Minute, "t")
			check(b, err)
		}
	}
	for b.Loop() {
		work(12 * perSecond) // until the servers know each other
		before, began := processorTime(b, redisServer), time.Now()
		work(seconds * perSecond)
		b.ReportMetric(milliseconds(processorTime(b, redisServer)-before)/time.Since(began).Seconds(), "redis-ms/s")
	}
	b.ReportMetric(0, "ns/op")
}

var usedProcessor = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([\d.]+)`)

// processorTime returns the CPU time that Redis has used.
func processorTime(b *testing.B, s *redistest.Server) (used time.Duration) {
	info, err := redis.String(s.Do("INFO", "cpu"), nil)
	check(b, err)
	for _, found := range usedProcessor.FindAllStringSubmatch(info, -1) {
		seconds, err := strconv.ParseFloat(found[1], 64)
		check(b, err)
		used += time.Duration(seconds * float64(time.Second))
	}
	return used
}

// BenchmarkFire runs passes with many due schedules; ns/op is per schedule.
func BenchmarkFire(b *testing.B) {
	const schedules = 10_000
	w := newWorld(b)
	for n := range schedules {
		w.schedule(aSchedule(fmt.Sprint("s", n), "@daily"), time.Hour)
	}
	late, took := 0.0, time.Duration(0)
	for range b.N {
		at := w.Clock()
		w.Do("EVAL", `for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
			redis.call('ZADD', KEYS[1], ARGV[1], id)
			redis.call('HSET', 'delayer:job_bucket:' .. id, 'next', ARGV[2])
		end`, 1, prefix+"job_pool", at-1, int64(at*1000)-1000)
		began := time.Now()
		w.pass()
		took += time.Since(began)
		late = max(late, w.Clock()-at)
		w.Do("DEL", prefix+"ready_queue:t")
	}
	b.ReportMetric(float64(took.Nanoseconds())/float64(b.N)/schedules, "ns/schedule")
}
