package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/server"
)

// fixture is a Client on a private Redis.
type fixture struct {
	*client.Client
	*redistest.Fixture
	redis *redistest.Server
	t     testing.TB
}

// start starts a private Redis with a Client on it. args are settings of Redis.
func start(t testing.TB, args ...string) *fixture {
	t.Helper()
	r := redistest.Start(t, args...)
	f := &fixture{Fixture: r.Fixture, redis: r, t: t}
	f.Client = f.open()
	return f
}

// with is the fixture for a subtest.
func (f *fixture) with(t testing.TB) *fixture {
	sub := *f
	sub.Fixture, sub.t = f.With(t), t
	return &sub
}

// open makes one more Client.
func (f *fixture) open(opts ...client.Option) *client.Client {
	c := client.OpenPool(client.PoolOptions{Addr: f.Addr}, opts...)
	f.t.Cleanup(func() { c.Close() })
	return c
}

// serve runs a server until the test ends, or stop.
func (f *fixture) serve() (stop func()) {
	f.t.Helper()
	return redistest.Background(f.t, server.New(f.redis.Pool(), server.Options{Interval: 20 * time.Millisecond}).Run)
}

func (f *fixture) do(command string, args ...any) any { f.t.Helper(); return f.Do(command, args...) }
func (f *fixture) state() state                       { f.t.Helper(); return f.State() }
func (f *fixture) expect(want state)                  { f.t.Helper(); f.Expect(want) }
func (f *fixture) clock() float64                     { f.t.Helper(); return f.Clock() }
func (f *fixture) due(id string) float64              { f.t.Helper(); return f.Due(id) }
func (f *fixture) waiters(topic string) int           { f.t.Helper(); return f.Waiters(topic) }
func (f *fixture) connections() int                   { f.t.Helper(); return f.Fixture.Connections() }

// seed replaces all that is in Redis. Each is the words of one command, where
// in+3600 stands for the Unix time in an hour by Redis's clock.
func (f *fixture) seed(commands ...string) {
	f.t.Helper()
	f.do("FLUSHALL")
	for _, command := range commands {
		words := strings.Fields(command)
		args := make([]any, 0, len(words))
		for _, word := range words[1:] {
			if seconds, ok := strings.CutPrefix(word, "in"); ok {
				offset, err := strconv.ParseFloat(seconds, 64)
				check(f.t, err)
				word = fmt.Sprintf("%.3f", math.Ceil((f.clock()+offset)*1000)/1000)
			}
			args = append(args, word)
		}
		f.do(words[0], args...)
	}
}

// bucket is the command that stores a job's content, for an hour.
func bucket(id, topic string) []string {
	return []string{
		"HSET delayer:job_bucket:" + id + " topic " + topic + " body old",
		"EXPIRE delayer:job_bucket:" + id + " 3600",
	}
}

// waiting is a job that falls due in 1,000 s.
func waiting(id, topic string) []string {
	return append(bucket(id, topic), "ZADD delayer:job_pool in+1000 "+id)
}

// ready is a job in its topic's ready queue.
func ready(id, topic string) []string { return append(bucket(id, topic), entry(id, topic)...) }

// entry is an ID in a ready queue.
func entry(id, topic string) []string {
	return []string{"LPUSH delayer:ready_queue:" + topic + " " + id}
}

func all(parts ...[]string) []string {
	var list []string
	for _, part := range parts {
		list = append(list, part...)
	}
	return list
}

type (
	state   = redistest.State
	queues  = map[string][]string
	buckets = map[string]string
)

// expires is when a job's bucket expires, in Unix seconds.
func (f *fixture) expires(id string) float64 {
	f.t.Helper()
	return float64(f.do("PEXPIRETIME", "delayer:job_bucket:"+id).(int64)) / 1000
}

// info is a number of Redis's INFO, whose field ends in a colon.
func (f *fixture) info(section, field string) int {
	f.t.Helper()
	command, calls := strings.CutSuffix(strings.TrimPrefix(field, "cmdstat_"), ":calls=")
	if calls {
		return f.Calls(command)
	}
	return f.InfoNumber(section, strings.TrimSuffix(field, ":"))
}

// wake wakes the Client that has waited longest for the topic, as a push does.
func (f *fixture) wake(topic string) {
	f.t.Helper()
	f.do("EVAL", `repeat
			local first = redis.call('ZPOPMIN', 'delayer:waiting:' .. ARGV[1])
		until redis.call('PUBLISH', 'delayer:wake:' .. first[1], '1 ' .. ARGV[1]) > 0`, 0, topic)
}

// waits waits until the Client has so many callers that wait for the topic, and
// is woken for its jobs.
func (f *fixture) waits(c *client.Client, topic string, callers int) {
	f.t.Helper()
	until(f.t, fmt.Sprint(callers, " callers wait for ", topic), func() bool {
		_, waiting := client.Callers(c, topic)
		return waiting == callers && client.Entered(c, topic)
	})
}

// bears waits until a caller waits for the topic though Redis takes no writes, or not ours.
func (f *fixture) bears(c *client.Client, topic string) {
	f.t.Helper()
	until(f.t, "a caller bears it", func() bool { _, waiting := client.Callers(c, topic); return waiting == 1 })
}

// check fails the test on an error.
var check = redistest.Check

// hangBound is for what must happen, however slow the machine.
const hangBound = redistest.HangBound

// until waits for something to become true.
var until = redistest.Until

// result of a call in the background.
type result struct {
	m    client.Message
	err  error
	took time.Duration
}

// pop is what Pop and BPop are once they have all arguments.
type pop func() (client.Message, error)

// background runs the call, whose result comes out of the channel.
func background(call pop) <-chan result {
	results := make(chan result, 1)
	go func() {
		began := time.Now()
		m, err := call()
		results <- result{m, err, time.Since(began)}
	}()
	return results
}

// waitFor gets the result of a call in the background.
func waitFor(t testing.TB, results <-chan result) result {
	t.Helper()
	return redistest.Receive(t, results)
}

// bpop starts a BPop without a timeout and waits until it waits in Redis.
func (f *fixture) bpop(ctx context.Context, topic string) <-chan result {
	f.t.Helper()
	_, before := client.Callers(f.Client, topic)
	results := background(func() (client.Message, error) { return f.BPop(ctx, 0, topic) })
	f.waits(f.Client, topic, before+1)
	return results
}

// push pushes a job that is ready at once.
func (f *fixture) push(id, topic string) {
	f.t.Helper()
	_, err := f.Push(f.t.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, 0)
	check(f.t, err)
}

// expectJob checks that the result is the job.
func expectJob(t testing.TB, r result, id string) {
	t.Helper()
	if r.err != nil || r.m.ID != id {
		t.Fatalf("got job %q, error %v, want job %q", r.m.ID, r.err, id)
	}
}

// expectText checks that there is an error that holds all the parts.
func expectText(t testing.TB, call string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %v, want one with %q", call, err, part)
		}
	}
}

// lockedLog is a log that may be read while it is written.
type lockedLog struct{ redistest.Log }

func (l *lockedLog) logger() *slog.Logger { return l.Logger() }
func (l *lockedLog) lines() []string      { return l.Lines() }
