package inspect

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// seedMany fills Redis with 1,000,000 waiting jobs of 1,000 topics, 20,000 reserved jobs, 100,000 dead letters, and a queue with
// 100,000 jobs of 1 KiB. Each topic also has ready jobs.
const seedMany = `
local now = tonumber(redis.call('TIME')[1])
for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local topic = 'topic' .. i % 1000
  redis.call('HSET', 'delayer:job_bucket:w' .. i, 'topic', topic, 'body', '{"number":' .. i .. '}')
  redis.call('PEXPIRE', 'delayer:job_bucket:w' .. i, 604800000)
  redis.call('ZADD', 'delayer:job_pool', now + (i % 10 == 0 and 3600 + i % 300 or 60 + i * 0.6), 'w' .. i)
  if i % 100 == 0 then
    redis.call('HSET', 'delayer:job_bucket:r' .. i, 'topic', topic, 'body', 'b', 'lease', '1 ' .. now .. '000000 0')
    redis.call('PEXPIRE', 'delayer:job_bucket:r' .. i, 604800000)
    redis.call('LPUSH', 'delayer:ready_queue:topic' .. i / 100 % 1000, 'r' .. i)
    redis.call('HSET', 'delayer:job_bucket:r' .. i, 'topic', 'topic' .. i / 100 % 1000)
    redis.call('ZADD', 'delayer:topics', 0, 'topic' .. i / 100 % 1000)
  end
  if i % 50 == 0 then
    redis.call('HSET', 'delayer:job_bucket:l' .. i, 'topic', topic, 'body', 'b', 'lease', '1 ' .. now .. '000000 0')
    redis.call('ZADD', 'delayer:job_pool', string.format('%d.%06d', now + 3600 + i % 30, i % 900 + 1), 'l' .. i)
    redis.call('HINCRBY', 'delayer:reserved', topic, 1)
  end
  if i % 10 == 0 then
    redis.call('HSET', 'delayer:dead_letter:d' .. i, 'topic', 'topic7', 'body', string.rep('b', 1000), 'reason', 'all 10 attempts used up', 'error', 'cause ' .. i % 70, 'died', now * 1000 - i)
    redis.call('ZADD', 'delayer:dead_letters:topic7', now * 1000 - i, 'd' .. i)
    redis.call('ZADD', 'delayer:dead_topics', now * 1000 - i, 'topic7')
    redis.call('HSET', 'delayer:job_bucket:p' .. i, 'topic', 'purged', 'body', string.rep('b', 1000))
    redis.call('LPUSH', 'delayer:ready_queue:purged', 'p' .. i)
  end
end
for i = 1, 5 do
  redis.call('HSET', 'delayer:job_bucket:large' .. i, 'topic', 'large', 'body', string.rep('b', 1024 * 1024))
  redis.call('LREM', 'delayer:ready_queue:large', 0, 'large' .. i)
  redis.call('LPUSH', 'delayer:ready_queue:large', 'large' .. i)
end`

// BenchmarkOperator measures how long each call takes in total and how long its scripts block Redis. DropDead, RequeueDead and
// Purge find jobs in the first round only: run them with -benchtime 1x.
func BenchmarkOperator(b *testing.B) {
	server := redistest.Start(b, "--slowlog-log-slower-than", "50", "--slowlog-max-len", "100000")
	pool := server.Pool()
	conn := pool.Get()
	defer conn.Close()
	for i := 0; i < 1000000; i += 1000 {
		_, err := conn.Do("EVAL", seedMany, 0, i, i+999)
		redistest.Check(b, err)
	}
	o, ctx := New(pool, "", fleet.Layout{}), context.Background()
	bars := func(step time.Duration, n int) (bounds []time.Duration) {
		for i := range n {
			bounds = append(bounds, time.Duration(i+1)*step)
		}
		return bounds
	}
	all := func(q Query) error {
		for pages := 0; pages < 5; pages++ {
			page, err := o.Browse(ctx, q)
			if q.Cursor = page.Cursor; err != nil || q.Cursor == "" {
				return err
			}
		}
		return nil
	}
	for _, bm := range []struct {
		name string
		call func() error
	}{
		{"Counts", func() error { _, err := o.Counts(ctx); return err }},
		{"Forecast/week", func() error { _, err := o.Forecast(ctx, bars(7*time.Hour, 24)); return err }},
		{"Forecast/hour", func() error { _, err := o.Forecast(ctx, bars(time.Minute, 60)); return err }},
		{"Peak/above100", func() error { _, err := o.Peak(ctx, 7*24*time.Hour, 100); return err }},
		{"Peak/above0", func() error { _, err := o.Peak(ctx, 7*24*time.Hour, 0); return err }},
		{"Peak/none", func() error { _, err := o.Peak(ctx, 7*24*time.Hour, 5000); return err }},
		{"Shares", func() error { _, err := o.Shares(ctx, 1000); return err }},
		{"Browse/waiting", func() error { return all(Query{Topic: "topic1", State: Waiting}) }},
		{"Browse/reserved", func() error { return all(Query{Topic: "topic0", State: Reserved}) }},
		{"Browse/ready", func() error { return all(Query{Topic: "purged", State: Ready, Limit: 500}) }},
		{"Browse/large", func() error { return all(Query{Topic: "large", State: Ready}) }},
		{"Browse/dead", func() error { return all(Query{Topic: "topic7", State: Dead, Limit: 500}) }},
		{"DeadGroups/10000", func() error { _, err := o.DeadGroups(ctx, "topic7", 10000); return err }},
		{"CountDead", func() error { _, err := o.CountDead(ctx, DeadFilter{Topic: "topic7", Error: "cause 3"}); return err }},
		{"DropDead", func() error { _, err := o.DropDead(ctx, DeadFilter{Topic: "topic7", Error: "cause 3"}); return err }},
		{"RequeueDead", func() error { _, err := o.RequeueDead(ctx, DeadFilter{Topic: "topic7"}); return err }},
		{"Purge", func() error { _, err := o.Purge(ctx, "purged", math.MaxInt); return err }},
		{"Info", func() error { _, err := o.Info(ctx); return err }},
	} {
		b.Run(bm.name, func(b *testing.B) {
			server.Do("SLOWLOG", "RESET")
			began := redisCPU(b, o)
			for b.Loop() {
				redistest.Check(b, bm.call())
			}
			used := redisCPU(b, o) - began
			times := scriptTimes(b, conn)
			b.ReportMetric(float64(len(times))/float64(b.N), "scripts/op")
			if len(times) > 0 {
				b.ReportMetric(used*1e6/float64(len(times)), "CPU-µs/script")
				b.ReportMetric(float64(times[len(times)/2]), "µs/script")
				b.ReportMetric(float64(times[len(times)*9/10]), "µs/script-p90")
				b.ReportMetric(float64(times[len(times)-1]), "µs/longest")
			}
		})
	}
}

// scriptTimes returns how long each script blocked Redis, in µs, shortest first.
func scriptTimes(b *testing.B, conn redis.Conn) (times []int64) {
	b.Helper()
	entries, err := redis.Values(conn.Do("SLOWLOG", "GET", -1))
	redistest.Check(b, err)
	for _, entry := range entries {
		fields := entry.([]any)
		if command := fmt.Sprintf("%s", fields[3].([]any)[0]); command == "EVALSHA" || command == "EVAL" {
			times = append(times, fields[2].(int64))
		}
	}
	slices.Sort(times)
	return times
}

// redisCPU returns the CPU time used by Redis, in s. On a busy machine it is more reliable than
// elapsed time.
func redisCPU(b *testing.B, o *Inspector) float64 {
	b.Helper()
	says, err := o.fleet.Stores[0].Info(b.Context())
	redistest.Check(b, err)
	user, _ := strconv.ParseFloat(says["used_cpu_user_main_thread"], 64)
	system, _ := strconv.ParseFloat(says["used_cpu_sys_main_thread"], 64)
	return user + system
}
