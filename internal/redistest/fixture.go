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
	// Clustered is set on a Redis Cluster, of which Addr is one node: the one that has all keys, where they are in one slot.
	Clustered bool

	joined bool    // State tells nothing of partitions
	shared bool    // with other tests
	binary *binary // where it is a cluster that they share
	own    *connections
}

// connections are those of a test to the nodes that it needs. One is dialled at first use, and again after a failure.
type connections struct {
	mu sync.Mutex
	to map[string]redis.Conn
}

// standardPrefix is the Prefix unless there is a reason for another. In commands of a test it stands for the Prefix.
const standardPrefix = "delayer:"

// On is the Redis at that address.
func On(tb testing.TB, addr string) *Fixture {
	f := &Fixture{Addr: addr, TB: tb, Prefix: standardPrefix, own: &connections{to: map[string]redis.Conn{}}}
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
	return f.dial(f.Addr)
}

func (f *Fixture) dial(addr string) redis.Conn {
	f.TB.Helper()
	if conn := f.own.to[addr]; conn == nil || conn.Err() != nil {
		conn, err := redis.Dial("tcp", addr)
		Check(f.TB, err)
		f.own.to[addr] = conn
	}
	return f.own.to[addr]
}

// addrOf is the address of the node that has the first of our keys among the arguments.
func (f *Fixture) addrOf(args ...any) string {
	for _, arg := range args {
		if key, ok := arg.(string); ok && f.binary != nil && strings.HasPrefix(key, f.Prefix) {
			return f.binary.ownerOf(key)
		}
	}
	return f.Addr
}

// Prefixes are what the names of keys begin with: that of each partition.
func (f *Fixture) Prefixes() []string {
	if f.Partitions <= 1 {
		return []string{f.Prefix}
	}
	var list []string
	for i := range f.Partitions {
		list = append(list, fmt.Sprintf("%s{%d}:", f.Prefix, i))
	}
	return list
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

// HangUp closes the test's own connections; the next command dials again.
func (f *Fixture) HangUp() {
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	for _, conn := range f.own.to {
		conn.Close()
	}
	clear(f.own.to)
}

// Do runs one command and fails the test on an error. In a cluster it goes to the node that has the keys.
func (f *Fixture) Do(command string, args ...any) any {
	f.TB.Helper()
	f.checkAlone(command)
	args = f.ownNames(command, args)
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	reply, err := f.dial(f.addrOf(args...)).Do(command, args...)
	if err != nil {
		f.TB.Fatalf("%s %.200q: %v", command, args, err)
	}
	return reply
}

// checkAlone fails a test that would do to others what it does to a Redis that it shares.
func (f *Fixture) checkAlone(command string) {
	f.TB.Helper()
	if f.shared && slices.Contains([]string{"ACL", "CLIENT", "CONFIG", "FLUSHALL", "INFO", "SCRIPT", "kill", "hang", "restart"}, command) {
		f.TB.Fatalf("%s is for tests that have their Redis to themselves: see Alone, and Flush", command)
	}
}

// ownNames puts the test's prefix where the arguments have the standard one.
func (f *Fixture) ownNames(command string, args []any) []any {
	f.TB.Helper()
	if f.Prefix == standardPrefix {
		return args
	}
	own := slices.Clone(args)
	for i, arg := range args {
		if text, ok := arg.(string); ok && strings.Contains(text, standardPrefix) {
			if f.Partitions > 1 && command != "ACL" {
				f.TB.Fatalf("%.200q is of no partition: see Undivided", text)
			}
			own[i] = strings.ReplaceAll(text, standardPrefix, f.Prefix)
		}
	}
	return own
}

// Flush removes all that is in Redis, and is not of other tests.
func (f *Fixture) Flush() {
	f.TB.Helper()
	if f.binary == nil {
		f.own.mu.Lock()
		defer f.own.mu.Unlock()
		_, err := f.dial(f.Addr).Do("FLUSHALL")
		Check(f.TB, err)
		return
	}
	f.each(f.keys(), "UNLINK")
}

// keys are all that there are, and are not of other tests.
func (f *Fixture) keys() (keys []string) {
	f.TB.Helper()
	if f.binary == nil {
		return f.Strings("KEYS", "*")
	}
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	for _, addr := range f.binary.addrs() {
		more, err := redis.Strings(f.dial(addr).Do("KEYS", f.Prefix+"*"))
		Check(f.TB, err)
		keys = append(keys, more...)
	}
	return keys
}

// Strings is Do of a command whose reply is a list.
func (f *Fixture) Strings(command string, args ...any) []string {
	f.TB.Helper()
	list, err := redis.Strings(f.Do(command, args...), nil)
	Check(f.TB, err)
	return list
}

// Queue is a topic's ready queue, the next ID first; those of several partitions behind each other.
func (f *Fixture) Queue(topic string) (queue []string) {
	f.TB.Helper()
	for _, prefix := range f.Prefixes() {
		ids := f.Strings("LRANGE", prefix+"ready_queue:"+topic, 0, -1)
		slices.Reverse(ids)
		queue = append(queue, ids...)
	}
	return queue
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

// Waiters is how many clients are to be woken for the topic's jobs, -1 if that is not the same in each partition. One that has
// gone does not count.
func (f *Fixture) Waiters(topic string) (n int) {
	f.TB.Helper()
	for i, prefix := range f.Prefixes() {
		script := `local alive = 0
			for _, waiter in ipairs(redis.call('ZRANGE', ARGV[1] .. 'waiting:' .. ARGV[2], 0, -1)) do
				for i = 3, #ARGV do
					alive = alive + redis.call('PUBSUB', ARGV[i], ARGV[1] .. 'wake:' .. waiter)[2]
				end
			end
			return alive`
		waiters := int(f.Do("EVAL", redis.Args{script, 0, prefix, topic}.AddFlat(f.numsubs())...).(int64))
		if i > 0 && waiters != n {
			return -1
		}
		n = waiters
	}
	return n
}

// numsubs are what tells how many are subscribed to a channel.
func (f *Fixture) numsubs() []string {
	if f.Clustered {
		return []string{"NUMSUB", "SHARDNUMSUB"}
	}
	return []string{"NUMSUB"}
}

// AwaitWaiter waits until somebody is to be woken for the topic's jobs.
func (f *Fixture) AwaitWaiter(topic string) {
	f.TB.Helper()
	Until(f.TB, "somebody waits for "+topic, func() bool { return f.Waiters(topic) > 0 })
}
