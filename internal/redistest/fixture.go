package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Fixture is a Redis as one test sees it, with a connection of the test's own.
type Fixture struct {
	// Addr is host:port.
	Addr string
	// TB is the test that fails.
	TB testing.TB
	// Prefix is what the names of our keys begin with.
	Prefix string
	// Partitions is how many parts the jobs are divided into, if they are more than one.
	Partitions int
	// Mini is set on miniredis.
	Mini bool

	own *connection
}

// connection is dialled at first use, and again after a failure.
type connection struct {
	mu sync.Mutex
	redis.Conn
}

// On is the Redis at that address.
func On(tb testing.TB, addr string) *Fixture {
	f := &Fixture{Addr: addr, TB: tb, Prefix: "delayer:", own: new(connection)}
	tb.Cleanup(f.HangUp)
	return f
}

// OnEach runs the test on a redis-server and on miniredis, which startMini starts.
func OnEach(t *testing.T, startMini func(t *testing.T) (addr string), test func(t *testing.T, f *Fixture)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Start(t).Fixture)
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		f := On(t, startMini(t))
		f.Mini = true
		test(t, f)
	})
}

// With is the fixture for a subtest.
func (f *Fixture) With(tb testing.TB) *Fixture {
	sub := *f
	sub.TB = tb
	return &sub
}

// Conn is the test's own connection.
func (f *Fixture) Conn() redis.Conn {
	f.TB.Helper()
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	return f.dial()
}

func (f *Fixture) dial() redis.Conn {
	f.TB.Helper()
	if f.own.Conn == nil || f.own.Err() != nil {
		conn, err := redis.Dial("tcp", f.Addr)
		Check(f.TB, err)
		f.own.Conn = conn
	}
	return f.own.Conn
}

// Pool is a pool of connections with these options, closed when the test ends.
func (f *Fixture) Pool(options ...redis.DialOption) *redis.Pool {
	if !f.Mini { // which may take long for a script
		options = append([]redis.DialOption{redis.DialReadTimeout(10 * time.Second)}, options...)
	}
	pool := &redis.Pool{
		MaxIdle: 16,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", f.Addr, options...)
		},
	}
	f.TB.Cleanup(func() { pool.Close() })
	return pool
}

// SetUser gives the user u, whose password is p, these rights and no other.
func (f *Fixture) SetUser(rights string) {
	f.TB.Helper()
	f.Do("ACL", redis.Args{"SETUSER", "u", "reset", "on", ">p"}.AddFlat(strings.Fields(rights))...)
}

// UserPool is Pool as the user u.
func (f *Fixture) UserPool() *redis.Pool {
	return f.Pool(redis.DialUsername("u"), redis.DialPassword("p"))
}

// HangUp closes the test's own connection; the next command dials again.
func (f *Fixture) HangUp() {
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	if f.own.Conn != nil {
		f.own.Close()
		f.own.Conn = nil
	}
}

// Do runs one command and fails the test on an error.
func (f *Fixture) Do(command string, args ...any) any {
	f.TB.Helper()
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	reply, err := f.dial().Do(command, args...)
	if err != nil {
		f.TB.Fatalf("%s %.200q: %v", command, args, err)
	}
	return reply
}

// Strings is Do of a command whose reply is a list.
func (f *Fixture) Strings(command string, args ...any) []string {
	f.TB.Helper()
	list, err := redis.Strings(f.Do(command, args...), nil)
	Check(f.TB, err)
	return list
}

// Queue is a topic's ready queue, the next ID first.
func (f *Fixture) Queue(topic string) []string {
	f.TB.Helper()
	ids := f.Strings("LRANGE", f.Prefix+"ready_queue:"+topic, 0, -1)
	slices.Reverse(ids)
	return ids
}

// Clock is Redis's, in Unix seconds.
func (f *Fixture) Clock() float64 {
	f.TB.Helper()
	return Seconds(f.TB, f.Do("TIME"))
}

// Seconds are those of a reply to TIME.
func Seconds(tb testing.TB, reply any) float64 {
	tb.Helper()
	t, err := redis.Float64s(reply, nil)
	Check(tb, err)
	return t[0] + t[1]/1e6
}

// InfoNumber is a number of Redis's INFO, 0 where it has none.
func (f *Fixture) InfoNumber(section, field string) int {
	f.TB.Helper()
	_, rest, _ := strings.Cut(string(f.Do("INFO", section).([]byte)), "\n"+field+":")
	return leadingNumber(rest)
}

// Connections is how many Redis has, the test's own included.
func (f *Fixture) Connections() int {
	f.TB.Helper()
	return f.InfoNumber("clients", "connected_clients")
}

// AllCalls is how often Redis was given each command since CONFIG RESETSTAT, by scripts, too.
func (f *Fixture) AllCalls() map[string]int {
	f.TB.Helper()
	calls := map[string]int{}
	for line := range strings.Lines(string(f.Do("INFO", "commandstats").([]byte))) {
		if name, fields, found := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls="); found {
			calls[name] = leadingNumber(fields)
		}
	}
	return calls
}

// Calls is the sum of AllCalls of these commands, in lower case; of all where none is named.
func (f *Fixture) Calls(commands ...string) (n int) {
	f.TB.Helper()
	for name, calls := range f.AllCalls() {
		if len(commands) == 0 || slices.Contains(commands, name) {
			n += calls
		}
	}
	return n
}

func leadingNumber(text string) (n int) {
	fmt.Sscanf(text, "%d", &n)
	return n
}

// Waiters is how many clients are to be woken for the topic's jobs. One that has gone does not count.
func (f *Fixture) Waiters(topic string) int {
	f.TB.Helper()
	return int(f.Do("EVAL", `local alive = 0
		for _, waiter in ipairs(redis.call('ZRANGE', ARGV[1] .. 'waiting:' .. ARGV[2], 0, -1)) do
			alive = alive + redis.call('PUBSUB', 'NUMSUB', ARGV[1] .. 'wake:' .. waiter)[2]
		end
		return alive`, 0, f.Prefix, topic).(int64))
}

// AwaitWaiter waits until somebody is to be woken for the topic's jobs.
func (f *Fixture) AwaitWaiter(topic string) {
	f.TB.Helper()
	Until(f.TB, "somebody waits for "+topic, func() bool { return f.Waiters(topic) > 0 })
}
