package server

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// BenchmarkBystander makes 1,000,000 jobs fall due at once and measures PINGs on another connection: how much do other
// users of that Redis notice?
func BenchmarkBystander(b *testing.B) {
	const jobs, topics = 1000000, 8
	w := newWorld(b)
	conn := w.Conn()
	var pings []time.Duration
	var took time.Duration
	for b.Loop() {
		w.many(jobs, topics)
		done := make(chan result, 1)
		started := time.Now()
		go func() {
			r, err := passOf(serverOn(w.pool(), 1, Options{}))
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
	go serverOn(redisServer.Pool(), 1, Options{Interval: time.Second}).Run(ctx)
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: redisServer.Addr}))
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
