package server

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var scheduleTime = flag.Duration("schedule.time", 5*time.Second, "for how long TestSchedulesOfKilledServers kills")

const killedServer = "DELAYER_TEST_KILLED_SERVER" // address of the server's Redis

// TestKilledServer is a server that TestSchedulesOfKilledServers kills.
func TestKilledServer(t *testing.T) {
	addr := os.Getenv(killedServer)
	if addr == "" {
		t.Skip("it is run by another test")
	}
	pool := &redis.Pool{MaxIdle: 4, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr) }}
	serverOn(pool, 1, Options{}).Run(t.Context())
}

// Three servers are killed again and again, and replaced a little later, so that at times no server runs. Each
// occurrence of fifty schedules has one job or is counted as an occurrence without a job.
func TestSchedulesOfKilledServers(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	w := newWorld(t)
	const schedules, every = 50, 100 * time.Millisecond
	firsts := map[string]time.Time{}
	for n := range schedules {
		name := fmt.Sprint("s", n)
		firsts[name] = w.schedule(aSchedule(name, "@every 100ms"), every+time.Duration(n)*time.Millisecond)
	}
	end := time.Now().Add(*scheduleTime)
	kills := 0
	var mu sync.Mutex
	var killers sync.WaitGroup
	for range 3 {
		killers.Go(func() {
			for time.Now().Before(end) {
				server := exec.Command(os.Args[0], "-test.run=^TestKilledServer$")
				server.Env = append(os.Environ(), killedServer+"="+w.Addr)
				if err := server.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(200*time.Millisecond + rand.N(800*time.Millisecond))
				server.Process.Kill()
				server.Wait()
				time.Sleep(rand.N(300 * time.Millisecond))
				mu.Lock()
				kills++
				mu.Unlock()
			}
		})
	}
	killers.Wait()
	w.run()
	for name := range firsts {
		ran := w.scheduled(name).Ran
		until(t, "each goes on", func() bool { return w.scheduled(name).Ran > ran })
	}
	jobs, late := 0, 0
	for name, first := range firsts {
		j, l := expectOccurrences(t, w, name, first, every)
		jobs, late = jobs+j, late+l
	}
	if jobs < schedules {
		t.Errorf("there are only %d jobs", jobs)
	}
	t.Logf("%d kills: %d moments with one job each, %d without, all of them counted", kills, jobs, late)
}
