package worker_test

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var crashTime = flag.Duration("crash.time", 8*time.Second, "for how long TestCrash kills")

const (
	crashWorkers = 4
	crashRedis   = 3 // number of times Redis is killed
	crashServers = 3 // number of times the server is killed
)

// crashLease is longer than Redis is down. A repeated Ack that finds the job gone assumes that its first try succeeded.
// But the job could also be gone because its lease ended and another worker finished it.
var crashLease = time.Second

func init() {
	if redistest.Clustered { // a restarted node does not serve its slots for two seconds
		crashLease = 5 * time.Second
	}
}

// Environment of TestCrash's processes.
const (
	crashRole = "DELAYER_CRASH_ROLE" // worker or server
	crashURL  = "DELAYER_CRASH_URL"  // Redis
	crashKeys = "DELAYER_CRASH_KEYS" // prefix of the keys
	crashFile = "DELAYER_CRASH_FILE" // log of what it does
)

// TestCrashProcess is not a test but a process that TestCrash starts and kills.
func TestCrashProcess(t *testing.T) {
	role := os.Getenv(crashRole)
	if role == "" {
		t.Skip("a process of TestCrash")
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { // stdin is closed when the test ends or wants this process to end
		io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	pool, err := client.ParseURL(os.Getenv(crashURL))
	check(t, err)
	prefix := os.Getenv(crashKeys)
	if role == "server" {
		o := server.Options{Logger: slog.New(slog.DiscardHandler), Interval: 50 * time.Millisecond, Prefix: prefix}
		err = redistest.Must(server.New(redistest.Must(client.Connect(pool)), o)).Run(ctx)
	} else {
		err = crashWorker(ctx, redistest.Must(client.OpenPool(pool, client.WithPrefix(prefix))), os.Getenv(crashFile))
	}
	check(t, err)
}

// crashWorker appends a line to the file when a handler starts and ends, and when its job is acknowledged. The lines
// survive a kill of the process.
func crashWorker(ctx context.Context, c *client.Client, file string) error {
	log, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	mux := one(func(ctx context.Context, job *worker.Job) error {
		fmt.Fprintln(log, "began", job.ID, job.Token)
		took := rand.N(20 * time.Millisecond)
		if rand.N(50) == 0 {
			took = crashLease + rand.N(crashLease) // long enough for its lease to be extended
		}
		select {
		case <-time.After(took):
		case <-ctx.Done():
			return ctx.Err()
		}
		fmt.Fprintln(log, "ended", job.ID, job.Token)
		return nil
	})
	return worker.New(c, mux, worker.Options{
		Concurrency: 8, Lease: crashLease, MaxAttempts: 1000, Grace: time.Minute,
		Logger: slog.New(slog.DiscardHandler),
		Hooks: worker.Hooks{Done: func(job *worker.Job, _ time.Duration) {
			fmt.Fprintln(log, "acked", job.ID, job.Token)
		}},
	}).Run(ctx)
}

// crash has the processes that TestCrash kills.
type crash struct {
	t     *testing.T
	redis *fixture
	file  string
	kills map[string]int
}

// process is restarted whenever it was killed.
type process struct {
	*exec.Cmd
	stdin io.Closer
}

func (c *crash) start(role string) *process {
	c.t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashProcess$")
	cmd.Env = append(os.Environ(), crashRole+"="+role, crashURL+"="+c.redis.url(), crashKeys+"="+c.redis.Prefix, crashFile+"="+c.file)
	var output strings.Builder
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	check(c.t, err)
	c.t.Cleanup(func() { // the process has ended, unless the test failed
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait()
		if c.t.Failed() && output.Len() > 0 {
			c.t.Logf("%s: %s", role, &output)
		}
	})
	return &process{cmd, stdin}
}

// kill kills a process and starts another.
func (c *crash) kill(p **process, role string) {
	(*p).Process.Kill()
	(*p).Wait()
	c.kills[role]++
	*p = c.start(role)
}

// Workers, Redis (whose AOF is written before it replies) and the server are killed under load. Each pushed job is
// handled and acknowledged. A job that is handled twice was not acknowledged before, and its first lease had ended by
// Redis's clock, as the tokens prove.
func TestCrash(t *testing.T) {
	redistest.Long(t)
	c := &crash{t: t, kills: map[string]int{}, file: filepath.Join(t.TempDir(), "log")}
	check(t, os.WriteFile(c.file, nil, 0o600))
	c.redis = start(t, settings("--appendonly", "yes", "--appendfsync", "always"))
	mover := c.start("server")
	workers := make([]*process, crashWorkers)
	for i := range workers {
		workers[i] = c.start("worker")
	}
	ctx, stop := context.WithCancel(t.Context())
	pushed := make(chan pushes, 1)
	go func() { pushed <- c.push(ctx) }()

	began, period := time.Now(), *crashTime
	if c.redis.Clustered {
		period += crashRedis * 2 * time.Second // a restarted node does not serve its slots for a while
	}
	redisAt, serverAt := period/(crashRedis+1), period/(crashServers+1)
	for elapsed := time.Duration(0); elapsed < period; elapsed = time.Since(began) {
		time.Sleep(rand.N(400 * time.Millisecond)) // random times are the test's input
		c.kill(&workers[rand.IntN(len(workers))], "worker")
		if c.kills["redis"] < crashRedis && elapsed > redisAt*time.Duration(c.kills["redis"]+1) {
			c.redis.Kill()
			time.Sleep(rand.N(300 * time.Millisecond))
			c.redis.Restart()
			c.kills["redis"]++
		}
		if c.kills["server"] < crashServers && elapsed > serverAt*time.Duration(c.kills["server"])+period/8 {
			c.kill(&mover, "server")
		}
	}
	stop()
	p := <-pushed
	c.drain()
	for _, process := range append(workers, mover) {
		process.stdin.Close()
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	}
	c.judge(p, c.read())
}

// pushes has the results of the pushes. A push with an error may be stored.
type pushes struct {
	stored  []string
	unknown map[string]bool
}

// push pushes jobs from several goroutines until ctx is done.
func (c *crash) push(ctx context.Context) pushes {
	producer := c.redis.Client
	p := pushes{unknown: map[string]bool{}}
	for n := 0; ctx.Err() == nil; n++ {
		var batch []client.Item
		for k := range 10 {
			m := client.Message{ID: fmt.Sprintf("%d.%d", n, k), Topic: "t", Body: "b"}
			batch = append(batch, client.Item{Message: m, Delay: rand.N(300 * time.Millisecond)})
		}
		results, _ := producer.PushBatch(context.Background(), batch)
		for _, r := range results {
			if r.Err == nil {
				p.stored = append(p.stored, r.ID)
			} else {
				p.unknown[r.ID] = true
			}
		}
		time.Sleep(20 * time.Millisecond) // limits the load to 500 jobs/s
	}
	return p
}

// drain waits until no job is left.
func (c *crash) drain() {
	c.t.Helper()
	left := func() int { return len(c.redis.State().Buckets) } // a job between queue and pool has one
	for bound := time.Now().Add(time.Minute); left() > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(bound) {
			c.t.Fatalf("%d jobs are left", left())
		}
	}
	c.redis.Expect(redistest.State{})
}

// crashDelivery is a delivery to a handler.
type crashDelivery struct {
	token int64 // time of the reservation in µs, by Redis's clock
	ended bool  // the handler finished its work
	acked bool
}

// read parses the workers' lines and returns the deliveries of each job in order.
func (c *crash) read() map[string][]*crashDelivery {
	c.t.Helper()
	file, err := os.Open(c.file)
	check(c.t, err)
	defer file.Close()
	deliveries := map[string][]*crashDelivery{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var what, id string
		d := &crashDelivery{}
		_, err := fmt.Sscan(lines.Text(), &what, &id, &d.token)
		check(c.t, err)
		if what == "began" {
			deliveries[id] = append(deliveries[id], d)
			continue
		}
		for _, earlier := range deliveries[id] {
			if earlier.token == d.token {
				earlier.ended = earlier.ended || what == "ended"
				earlier.acked = earlier.acked || what == "acked"
			}
		}
	}
	for _, list := range deliveries {
		slices.SortFunc(list, func(a, b *crashDelivery) int { return cmp.Compare(a.token, b.token) })
	}
	return deliveries
}

// judge checks that no job was lost and that each redelivery had a reason.
func (c *crash) judge(p pushes, deliveries map[string][]*crashDelivery) {
	c.t.Helper()
	known := map[string]bool{}
	for _, id := range p.stored {
		known[id] = true
		if !slices.ContainsFunc(deliveries[id], func(d *crashDelivery) bool { return d.ended }) {
			c.t.Errorf("job %s is lost, of %d deliveries", id, len(deliveries[id]))
		}
	}
	again := 0
	for id, list := range deliveries {
		if !known[id] && !p.unknown[id] {
			c.t.Errorf("job %s was never pushed", id)
		}
		if last := list[len(list)-1]; last.acked && !last.ended {
			c.t.Errorf("job %s is acknowledged, but not done", id)
		}
		for i, d := range list[:len(list)-1] {
			again++
			lasted := time.Duration(list[i+1].token-d.token) * time.Microsecond
			if d.acked || lasted < crashLease {
				c.t.Errorf("job %s: delivered again after %v, acknowledged: %v", id, lasted, d.acked)
			}
		}
	}
	c.t.Logf("%v of kills; killed: %v", *crashTime, c.kills)
	c.t.Logf("%d jobs stored, %d of unknown fate; %d were delivered again, each after its lease had ended", len(p.stored), len(p.unknown), again)
	if c.kills["redis"] < crashRedis || c.kills["server"] < crashServers || again == 0 {
		c.t.Error("there were too few kills: this proves nothing")
	}
}
