package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// BenchmarkGroup fills a group with bodies of 1 KiB, one push after the other or in batches. Each call writes the whole
// body again. The benchmark reports Redis's time per call, also for the last tenth of the calls, and the bytes written
// to the AOF.
func BenchmarkGroup(b *testing.B) {
	body := `"` + strings.Repeat("x", 1021) + `"`
	for _, c := range [][2]int{{10, 1}, {100, 1}, {1000, 1}, {1000, 250}} {
		bodies, batch := c[0], c[1]
		b.Run(fmt.Sprintf("%d of 1 KiB, %d at a time", bodies, batch), func(b *testing.B) {
			f := start(b, settings("--appendonly", "yes", "--appendfsync", "no", "--auto-aof-rewrite-percentage", "0"))
			cpu, aof := f.usedCPU(), f.info("persistence", "aof_current_size")
			var last, calls float64
			for b.Loop() {
				for n := 0; n < bodies; n += batch {
					before := f.usedCPU()
					jobs := make([]client.Delayed, batch)
					for i := range jobs {
						jobs[i].Message = client.Message{Topic: "t", Body: body}
					}
					_, err := f.PushBatch(b.Context(), jobs, client.Group("k", client.GroupOptions{Max: bodies, Longest: time.Hour}))
					check(b, err)
					if n >= bodies*9/10-batch {
						last += f.usedCPU() - before
						calls++
					}
				}
				m, err := f.Pop(b.Context(), "t")
				check(b, err)
				if want := bodies * (len(body) + 1); len(m.Body) != want+1 {
					b.Fatalf("%d bytes, want %d", len(m.Body), want+1)
				}
			}
			b.ReportMetric((f.usedCPU()-cpu)*1000/float64(b.N), "ms-of-Redis/op")
			b.ReportMetric((f.info("persistence", "aof_current_size")-aof)/float64(b.N)/1e6, "MB-of-AOF/op")
			b.ReportMetric(last*1000/calls, "ms-of-Redis/last")
		})
	}
}

func (f *fixture) usedCPU() float64 {
	return f.info("cpu", "used_cpu_user") + f.info("cpu", "used_cpu_sys")
}

// info returns a number from INFO.
func (f *fixture) info(section, field string) (value float64) {
	f.TB.Helper()
	text, err := redis.String(f.Do("INFO", section), nil)
	check(f.TB, err)
	_, rest, _ := strings.Cut(text, "\n"+field+":")
	fmt.Sscan(rest, &value)
	return value
}
