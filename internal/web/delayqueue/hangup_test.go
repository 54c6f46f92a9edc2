package delayqueue

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// If a client disconnects during a large answer, its job is released.
func TestHangUpWithinAnAnswer(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", strings.Repeat("x", 16<<20), client.JobOptions{Lease: time.Hour})
	conn := f.request("/pop", `{"topic":"t"}`)
	_, err := conn.Read(make([]byte, 1000))
	check(t, err)
	conn.Close()
	until(t, "the job is given back", func() bool { return f.is("a", client.StateReady) })
}

// A client that reads its answer and disconnects keeps its job.
func TestHangUpAfterTheAnswer(t *testing.T) {
	f := start(t, setup{})
	const jobs, callers = 400, 8
	for n := range jobs {
		f.push(fmt.Sprint(n), "t", "b", client.JobOptions{Lease: time.Hour})
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range jobs / callers {
				conn := f.request("/pop", `{"topic":"t"}`)
				r := f.answer(conn)
				conn.Close()
				mu.Lock()
				seen[string(r.Data)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != jobs {
		t.Errorf("%d of %d jobs have come; the others came twice", len(seen), jobs)
	}
}

// A request of any size is executed even if its client closes the connection right after sending it.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	for size, jobs := range map[int]int{1: 200, 700 << 10: 20} {
		f := start(t, setup{})
		for n := range jobs {
			f.request("/push", fmt.Sprintf(`{"topic":"t","id":"%d","delay":3600,"ttr":60,"body":"%s"}`, n, strings.Repeat("x", size))).Close()
		}
		until(t, "all jobs are stored", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(jobs) })
		for n := range jobs {
			f.request([]string{"/delete", "/finish"}[n%2], fmt.Sprintf(`{"id":"%d"}`, n)).Close()
		}
		until(t, "all jobs are deleted", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(0) })
	}
}
