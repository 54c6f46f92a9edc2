package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// check fails the test on an error.
var check = redistest.Check

// backend is an empty Redis with a Store.
type backend struct {
	*Store
	*redistest.Fixture
	base float64 // the Unix second of the last seed, by Redis's clock
}

func newBackend(f *redistest.Fixture, pool *redis.Pool) *backend {
	return &backend{Store: New(pool, f.Prefix), Fixture: f}
}

func TestMain(m *testing.M) { os.Exit(redistest.Run(m, 1000, eachScriptWasRun)) }

// The parts of a redistest.State.
type (
	queues  = map[string][]string
	buckets = map[string]string
	texts   = map[string]string
)

// alone is for a test that needs a Redis of its own.
var alone redistest.Need = redistest.Alone

// onRedis opens a Redis; see redistest.Open.
func onRedis(tb testing.TB, needs ...redistest.Need) (*backend, *redistest.Server) {
	tb.Helper()
	server := redistest.Open(tb, append(needs, redistest.Undivided)...)
	return newBackend(server.Fixture, server.Pool()), server
}

// onEach runs the test on a redis-server and on the in-memory server of --dev.
func onEach(t *testing.T, test func(t *testing.T, b *backend), needs ...redistest.Need) {
	startMini := func(t *testing.T) string {
		m, err := devredis.Start("127.0.0.1:0")
		check(t, err)
		t.Cleanup(m.Close)
		return m.Addr
	}
	redistest.OnEach(t, startMini, func(t *testing.T, f *redistest.Fixture) { test(t, newBackend(f, f.Pool())) }, append(needs, redistest.Undivided)...)
}

// partitions returns this many partitions on the Redis.
func partitions(r redisconn.Redis, n int) []*Store {
	all, source := make([]*Store, n), redisconn.NewSource(r)
	for i := range all {
		all[i] = At(source, KeysOf(DefaultPrefix).Partition(i))
	}
	return all
}

// wholeShare is the share of a single partition.
func wholeShare(l Limit) Share {
	s := Share{Concurrency: -1, Burst: l.Burst}
	if l.Concurrency > 0 {
		s.Concurrency = l.Concurrency
	}
	if l.Rate > 0 {
		s.Interval = 1e6 / l.Rate
	}
	return s
}

// limitTo limits the jobs of the topic t.
func (s *Store) limitTo(ctx context.Context, l Limit) error {
	return s.SetLimit(ctx, "t", l, wholeShare(l))
}

// resumeAll resumes a topic in as many steps as necessary.
func (s *Store) resumeAll(ctx context.Context, topic string) (wasPaused bool, err error) {
	for more := true; more && err == nil; {
		var r Resumed
		r, err = s.Resume(topic).Do(ctx)
		more, wasPaused = r.More, wasPaused || r.WasPaused
	}
	return wasPaused, err
}

// user returns the backend as the user u.
func (b *backend) user() *backend { return newBackend(b.Fixture, b.UserPool()) }

// aJob returns a push of a job.
func aJob(id, topic string, after time.Duration) Delayed {
	return Delayed{Job{ID: id, Topic: topic, Body: "b"}, Due{After: after}, Terms{Lifetime: kept, Policy: Replace}, nil}
}

// push stores one job.
func (b *backend) push(ctx context.Context, job Job, due Due, lifetime time.Duration, policy Policy) error {
	return errorOf(b.Push([]Delayed{{job, due, Terms{Lifetime: lifetime, Policy: policy}, nil}}).Do(ctx))
}

// errOf returns a call's error.
func errOf[T any](_ T, err error) error { return err }

// errorOf returns the error of the call, or of its first item that has one.
func errorOf(errs []error, err error) error { return cmp.Or(append([]error{err}, errs...)...) }

// remove removes one job, and returns the state in which it was; empty if there was none.
func (b *backend) remove(ctx context.Context, id string) (was string, err error) {
	r := removals(id)
	errs, err := b.Remove(r).Do(ctx)
	if err != nil || errs[0] == ErrNotFound {
		return r[0].Was, err
	}
	return r[0].Was, errs[0]
}

func removals(ids ...string) (all []*Removal) {
	for _, id := range ids {
		all = append(all, &Removal{ID: id})
	}
	return all
}

// pop takes one job, in as many calls as necessary. It returns ErrEmpty if there is none.
func (b *backend) pop(ctx context.Context, topics []string) (job Job, stale []string, err error) {
	for {
		popped, err := b.Pop(Wanted{Topics: topics, N: 1}).Do(ctx)
		stale = append(stale, popped.Stale...)
		switch {
		case err != nil:
			return Job{}, stale, err
		case len(popped.Jobs) > 0:
			return popped.Jobs[0], stale, nil
		case !popped.More:
			return Job{}, stale, ErrEmpty
		}
	}
}

func (b *backend) do(tb testing.TB, command string, args ...any) any {
	tb.Helper()
	return b.With(tb).Do(command, args...)
}

// command is one Redis command of a seed. An after argument becomes a score, relative to the seed.
type command []any

type after time.Duration

// seed replaces everything in Redis.
func (b *backend) seed(tb testing.TB, seeds ...[]command) {
	tb.Helper()
	b.With(tb).Flush()
	b.base = math.Floor(b.clock(tb))
	for _, commands := range seeds {
		for _, c := range commands {
			args := append([]any(nil), c[1:]...)
			for i, arg := range args {
				if offset, ok := arg.(after); ok {
					args[i] = b.score(offset)
				}
			}
			b.do(tb, c[0].(string), args...)
		}
	}
}

func (b *backend) score(offset after) string {
	return strconv.FormatFloat(b.base+time.Duration(offset).Seconds(), 'f', 3, 64)
}

const (
	second = after(time.Second)
	// kept is the remaining lifetime of seeded jobs once they are ready.
	kept = time.Hour
)

// waits seeds a job in the pool, due at an after or a score.
func waits(id, topic string, due any) []command {
	return append(content(id, topic), command{"ZADD", "delayer:job_pool", due, id})
}

// ready seeds a job in its topic's ready queue.
func ready(id, topic string) []command {
	return append(content(id, topic), entry(id, topic)...)
}

// entry seeds an ID in a ready queue.
func entry(id, topic string) []command {
	return []command{{"LPUSH", "delayer:ready_queue:" + topic, id}}
}

// waiter seeds a client that waits for the topic's jobs.
func waiter(topic, client string) []command {
	return []command{{"ZADD", "delayer:waiters:" + topic, 1, client}}
}

// content seeds a job's bucket.
func content(id, topic string) []command {
	bucket := "delayer:job_bucket:" + id
	return []command{
		{"HSET", bucket, "topic", topic, "body", "body of " + id},
		{"PEXPIRE", bucket, kept.Milliseconds()},
	}
}

// ghosts seeds n entries without a job: ghost1, ghost2, …
func ghosts(topic string, n int) []command {
	return []command{{"EVAL", "for i = 1, tonumber(ARGV[1]) do redis.call('LPUSH', KEYS[1], 'ghost' .. i) end", 1, "delayer:ready_queue:" + topic, n}}
}

func ghostIDs(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("ghost", i+1)
	}
	return ids
}

// skipInfinite skips a case with an infinite score on miniredis, whose Lua can't parse such a number.
func (b *backend) skipInfinite(t *testing.T, seed [][]command) {
	if b.Mini && strings.Contains(fmt.Sprint(seed), "inf ") {
		t.Skip("miniredis: Lua without infinite numbers")
	}
}

// text seeds a string where another type belongs.
func text(key string) []command { return []command{{"SET", "delayer:" + key, "text"}} }

func (b *backend) expect(tb testing.TB, want redistest.State) { tb.Helper(); b.With(tb).Expect(want) }
func (b *backend) state(tb testing.TB) redistest.State        { tb.Helper(); return b.With(tb).State() }
func (b *backend) scores(tb testing.TB) map[string]string     { tb.Helper(); return b.With(tb).Scores() }
func (b *backend) clock(tb testing.TB) float64                { tb.Helper(); return b.With(tb).Clock() }

// expiry returns when the job's bucket expires, in Unix seconds by Redis's clock; +Inf if never.
func (b *backend) expiry(tb testing.TB, id string) float64 {
	tb.Helper()
	for {
		b.Conn().Send("MULTI")
		b.Conn().Send("TIME")
		b.Conn().Send("PTTL", "delayer:job_bucket:"+id)
		b.Conn().Send("TIME")
		replies, err := redis.Values(b.Conn().Do("EXEC"))
		check(tb, err)
		ttl := replies[1].(int64)
		if ttl < 0 {
			return math.Inf(1)
		}
		before, after := redistest.Seconds(tb, replies[0]), redistest.Seconds(tb, replies[2])
		if after-before < 0.0005 { // else the readings are too far apart
			return before + float64(ttl)/1000
		}
	}
}

// due returns the job's score, and whether the job waits.
func (b *backend) due(tb testing.TB, id string) (float64, bool) {
	tb.Helper()
	score := b.With(tb).Due(id)
	return score, !math.IsNaN(score)
}

// span is a time range by Redis's clock, read before and after a call.
type span struct{ from, to float64 }

func (b *backend) timed(tb testing.TB, call func()) span {
	tb.Helper()
	from := b.clock(tb)
	call()
	return span{from, b.clock(tb)}
}

// rounding is the tolerance for times that Delayer and Redis round to milliseconds.
const rounding = 0.0031

// expectAfter checks that a time is d after some time in the span.
func (s span) expectAfter(tb testing.TB, what string, got float64, d time.Duration) {
	tb.Helper()
	if got < s.from+d.Seconds()-rounding || got > s.to+d.Seconds()+rounding {
		tb.Errorf("%s is %.6f s after the call, want %v", what, got-s.from, d)
	}
}

// begins reports whether err is a Redis error that begins with the reason.
func begins(err error, reason string) bool {
	words := wordsOf(err)
	return words != "" && strings.HasPrefix(words, strings.TrimPrefix(reason, "ERR "))
}

// expectError checks that Redis refused for this reason. miniredis puts more in front of it.
func (b *backend) expectError(tb testing.TB, err error, reason string) {
	tb.Helper()
	if !begins(err, reason) && !(b.Mini && err != nil && strings.Contains(err.Error(), reason)) {
		tb.Errorf("error %v, want one that begins with %s", err, reason)
	}
}

// expectRefused checks that the call on these seeds is refused for this reason and changes nothing.
func (b *backend) expectRefused(t *testing.T, reason string, call func() error, seeds ...[]command) {
	t.Helper()
	b.seed(t, seeds...)
	was := b.state(t)
	b.expectError(t, call(), reason)
	b.expect(t, was)
}

// expectDenied checks that the call of the user u, who lacks a command, is refused and changes nothing.
func (b *backend) expectDenied(t *testing.T, command string, call func() error) {
	t.Helper()
	was := b.state(t)
	b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
	if err := call(); !Refused(err) {
		t.Errorf("without %s: error %v, want one that Refused knows", command, err)
	}
	b.expect(t, was)
}

// Strings returns the IDs as strings.
func (ids IDs) Strings() []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id.([]byte))
	}
	return list
}
