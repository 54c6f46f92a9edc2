package server

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

const (
	prefix = store.DefaultPrefix
	// hangs is the longest wait of a test.
	hangs = redistest.HangBound
)

// quiet is for servers whose log no test reads.
var quiet = slog.New(slog.DiscardHandler)

// check fails the test on an error.
var check = redistest.Check

// until waits until a condition holds.
var until = redistest.Until

// recorder keeps the log lines of a server.
type recorder struct {
	hears func(line string) // called for each info, if set

	mu           sync.Mutex
	info, errors []string
}

func (r *recorder) Info(line string) {
	if r.hears != nil {
		r.hears(line)
	}
	r.add(&r.info, line)
}

func (r *recorder) Error(line string) { r.add(&r.errors, line) }

func (r *recorder) add(lines *[]string, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*lines = append(*lines, line)
}

// logger returns the server's logger.
func (r *recorder) logger() *slog.Logger { return slog.New(lines{r}) }

// lines returns a copy of what was logged.
func (r *recorder) lines() (info, errors []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.info), slices.Clone(r.errors)
}

// lines passes the server's records to a recorder, in the original's words.
type lines struct{ *recorder }

func (l lines) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "ids":
			ids, _ := a.Value.Any().(jobIDs)
			line += ", IDs: [" + string(bytes.Join(ids.Bytes(), []byte{','})) + "]"
		case "topic":
			line += ", Topic: " + a.Value.String()
		case "partition":
			line += ", Partition: " + a.Value.String()
		}
		return true
	})
	if r.Level < slog.LevelWarn {
		l.Info(line)
	} else {
		l.Error(line)
	}
	return nil
}

func (l lines) WithAttrs([]slog.Attr) slog.Handler { return l } // a Server does not use it
func (l lines) WithGroup(string) slog.Handler      { return l }

func (r *recorder) awaitError(tb testing.TB, part string) {
	tb.Helper()
	until(tb, "an error: "+part, func() bool { _, errors := r.lines(); return mention(errors, part) > 0 })
}

func (r *recorder) awaitInfo(tb testing.TB, part string) {
	tb.Helper()
	until(tb, "an info: "+part, func() bool { info, _ := r.lines(); return mention(info, part) > 0 })
}

// awaitMoved waits until n jobs were logged as ready.
func (r *recorder) awaitMoved(tb testing.TB, n int) {
	tb.Helper()
	until(tb, fmt.Sprint(n, " jobs are ready"), func() bool {
		info, _ := r.lines()
		moved := 0
		for _, line := range info {
			moved += len(idsOf(line))
		}
		return moved >= n
	})
}

// idsOf returns the IDs in a log line. None may contain a comma.
func idsOf(line string) []string {
	_, list, ok := strings.Cut(line, "IDs: [")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, "]")
	return strings.Split(list, ",")
}

// mention counts the lines that contain part.
func mention(lines []string, part string) int {
	n := 0
	for _, line := range lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (r *recorder) expectErrors(tb testing.TB, want ...string) {
	tb.Helper()
	if _, errors := r.lines(); !slices.Equal(errors, want) {
		tb.Errorf("error log:\n got %.4000q\nwant %.4000q", errors, want)
	}
}

// expectErrorsWith checks that there is one error for each part, and that it contains the part.
func (r *recorder) expectErrorsWith(tb testing.TB, parts ...string) {
	tb.Helper()
	if _, errors := r.lines(); !slices.EqualFunc(errors, parts, strings.Contains) {
		tb.Errorf("error log:\n got %.4000q\nwant lines with %.4000q", errors, parts)
	}
}

// world is a private Redis with a Server that the test runs pass by pass or with Run.
type world struct {
	*redistest.Server
	log    *recorder
	server *Server

	dialled chan struct{} // receives at each dial
}

func newWorld(tb testing.TB, redisArgs ...string) *world {
	tb.Helper()
	w := &world{Server: redistest.Start(tb, redisArgs...), log: new(recorder), dialled: make(chan struct{}, 100)}
	w.server = serverOn(w.pool(), 1, w.options())
	return w
}

// serverOn returns a Server for the jobs there, in that many partitions.
func serverOn(conns redisconn.Redis, partitions int, o Options) *Server {
	o.Logger = cmp.Or(o.Logger, quiet)
	return redistest.Must(New((*client.Redis)(fleet.NewRedis(conns, partitions, nil)), o))
}

// fleetOn returns the jobs there, in that many partitions.
func fleetOn(conns redisconn.Redis, partitions int) *fleet.Fleet {
	return redistest.Must(fleet.Open(fleet.NewRedis(conns, partitions, nil), prefix))
}

func (w *world) options() Options {
	return Options{Interval: 10 * time.Millisecond, Logger: w.log.logger()}
}

// pool returns a pool for a Server.
func (w *world) pool() *redis.Pool { return w.poolWith(3 * time.Second) }

// poolWith returns a pool with a single timeout for everything; 0 means none.
func (w *world) poolWith(timeout time.Duration, options ...redis.DialOption) *redis.Pool {
	return w.poolTo(w.Addr, timeout, options...)
}

// poolTo is poolWith for another address.
func (w *world) poolTo(addr string, timeout time.Duration, options ...redis.DialOption) *redis.Pool {
	options = append(options, redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
	pool := &redis.Pool{MaxIdle: 4, MaxActive: 4, Wait: true, DialContext: func(ctx context.Context) (redis.Conn, error) {
		select {
		case w.dialled <- struct{}{}:
		default:
		}
		return redis.DialContext(ctx, "tcp", addr, options...)
	}}
	w.TB.Cleanup(func() { pool.Close() })
	return pool
}

// awaitDials waits for this many more dials.
func (w *world) awaitDials(n int) {
	w.TB.Helper()
	for len(w.dialled) > 0 {
		<-w.dialled
	}
	for range n {
		redistest.Receive(w.TB, w.dialled)
	}
}

// push stores a job as the original's clients do, with this score.
func (w *world) push(id, topic string, score any) {
	w.TB.Helper()
	w.Do("HMSET", prefix+"job_bucket:"+id, "topic", topic, "body", "body")
	w.Do("ZADD", prefix+"job_pool", score, id)
}

// keys counts the keys except those of known topics, heartbeats and the last hour.
func (w *world) keys() int64 {
	w.TB.Helper()
	// In one step, because a running server may change something in between.
	const others = "return redis.call('DBSIZE') - redis.call('EXISTS', unpack(KEYS))"
	return w.Do("EVAL", others, 3, prefix+"topics", prefix+"servers", prefix+"history").(int64)
}

// result is the result of a pass.
type result struct {
	Moved, Dropped int
	Next           time.Time // when the next job falls due
}

func passOf(s *Server) (r result, err error) {
	was := s.heartbeat.state
	r.Next, err = s.movers[0].passOnce(context.Background(), context.Background())
	r.Moved, r.Dropped = int(s.heartbeat.state.Moved-was.Moved), int(s.heartbeat.state.Dropped-was.Dropped)
	return r, err
}

// pass runs a pass, which must succeed.
func (w *world) pass() result {
	w.TB.Helper()
	r, err := passOf(w.server)
	check(w.TB, err)
	return r
}

// expectPass runs a pass and checks how many jobs it moved and dropped.
func (w *world) expectPass(moved, dropped int) {
	w.TB.Helper()
	if r := w.pass(); r.Moved != moved || r.Dropped != dropped {
		w.TB.Errorf("moved %d and dropped %d jobs, want %d and %d", r.Moved, r.Dropped, moved, dropped)
	}
}

// run runs the Server until stop is called; stop waits for its end.
func (w *world) run() (stop func()) {
	w.TB.Helper()
	return redistest.Background(w.TB, w.server.Run)
}

// manyScript stores the jobs with the numbers ARGV[4] to ARGV[1] - 1 in the pool KEYS[1], named job000000 and so on. They belong to
// ARGV[2] topics in turn, topic0 and so on, and fall due in order from ARGV[3] on, 1 ms apart.
var manyScript = redis.NewScript(1, `
local prefix = string.match(KEYS[1], '^(.*)job_pool$')
for n = ARGV[4], ARGV[1] - 1 do
  local id = string.format('job%06d', n)
  redis.call('HMSET', prefix .. 'job_bucket:' .. id, 'topic', 'topic' .. (n % ARGV[2]), 'body', 'body')
  redis.call('ZADD', KEYS[1], ARGV[3] + n / 1000, id)
end`)

// many replaces everything in Redis with jobs that are due.
func (w *world) many(jobs, topics int) {
	w.TB.Helper()
	w.Do("FLUSHALL")
	w.manyIn([]*store.Store{store.New(nil, prefix)}, jobs, topics)
}

// manyIn adds as many due jobs to each partition.
func (w *world) manyIn(p []*store.Store, jobs, topics int) {
	w.TB.Helper()
	const chunk = 5000 // more would take long on a busy machine
	for _, s := range p {
		for first := 0; first < jobs; first += chunk {
			_, err := manyScript.Do(w.Conn(), s.Keys().JobPool(), min(first+chunk, jobs), topics, 1000, first)
			check(w.TB, err)
		}
	}
}

// manyIDs returns the IDs of the jobs that many stores.
func manyIDs(jobs int) []string {
	ids := make([]string, jobs)
	for n := range ids {
		ids[n] = fmt.Sprintf("job%06d", n)
	}
	return ids
}

// expectManyMoved checks that all jobs of many are in their topics' queues, once, in due order, and nowhere else, and
// that their buckets exist.
func (w *world) expectManyMoved(jobs, topics int) {
	w.TB.Helper()
	w.expectManyMovedIn([]*store.Store{store.New(nil, prefix)}, jobs, topics)
	if n := w.keys(); n != int64(jobs+min(jobs, topics)) {
		w.TB.Errorf("%d keys, want %d buckets and %d queues", n, jobs, min(jobs, topics))
	}
}

// expectManyMovedIn checks that all of manyIn's jobs are in their topics' queues, in due order, once.
func (w *world) expectManyMovedIn(p []*store.Store, jobs, topics int) {
	w.TB.Helper()
	want := make([][]string, topics)
	for n, id := range manyIDs(jobs) {
		want[n%topics] = append(want[n%topics], id)
	}
	for _, s := range p {
		for topic, ids := range want {
			queue := s.Keys().ReadyQueue(fmt.Sprint("topic", topic))
			got := w.Strings("LRANGE", queue, 0, -1)
			slices.Reverse(got)
			w.expectIDs(queue, got, ids)
		}
		if n := w.Do("ZCARD", s.Keys().JobPool()); n != int64(0) {
			w.TB.Errorf("%v jobs wait in %s", n, s.Keys().JobPool())
		}
	}
}

// awaitEmptyPool waits until no job waits.
func (w *world) awaitEmptyPool() {
	w.TB.Helper()
	until(w.TB, "the pool is empty", func() bool { return w.Do("ZCARD", prefix+"job_pool") == int64(0) })
}

// waiting returns the IDs in the pool, in due order.
func (w *world) waiting() []string {
	w.TB.Helper()
	return w.Strings("ZRANGE", prefix+"job_pool", 0, -1)
}

func (w *world) expectWaiting(want ...string) {
	w.TB.Helper()
	w.expectIDs("waiting", w.waiting(), want)
}

// expectReady checks a topic's ready queue, the next ID first.
func (w *world) expectReady(topic string, want ...string) {
	w.TB.Helper()
	w.expectIDs("ready of "+topic, w.Queue(topic), want)
}

func (w *world) expectIDs(what string, got, want []string) {
	w.TB.Helper()
	if !slices.Equal(got, want) {
		w.TB.Errorf("%s: %d jobs: %.200q…, want %d: %.200q…", what, len(got), got, len(want), want)
	}
}

// onLook calls f after the n-th read of due jobs, before the moves.
func (w *world) onLook(f func(n int)) {
	n := 0
	w.server.test.moveApart = true // otherwise nothing happens between the two
	w.server.test.beforeMove = func() {
		n++
		f(n)
	}
}

// redisTime returns Redis's time as a score.
func redisTime(w *world) string {
	t := w.Do("TIME").([]any)
	return fmt.Sprintf("%s.%06s", t[0], t[1])
}

// dueNow returns a due time that is over, but later than those of all jobs that were read so far.
func dueNow(w *world) string {
	w.TB.Helper()
	due := math.Ceil(w.Clock()*1000+1) / 1000
	for w.Clock() < due+0.001 {
	}
	return strconv.FormatFloat(due, 'f', 3, 64)
}

// pushTo stores a job as our client does.
func pushTo(ctx context.Context, s *store.Store, job store.Job, due store.Due) error {
	errs, err := s.Push([]store.Delayed{{Job: job, Due: due, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}}).Do(ctx)
	if err != nil {
		return err
	}
	return errs[0]
}

// mover returns the mover of the only partition.
func (w *world) mover() *mover { return w.server.movers[0] }
