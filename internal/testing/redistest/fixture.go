package redistest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Fixture is the Redis of one test, with its own connection.
type Fixture struct {
	// Addr is host:port.
	Addr string
	// TB is the test that fails.
	TB testing.TB
	// Prefix begins the names of the test's keys.
	Prefix string
	// Partitions is the number of partitions, if there are several.
	Partitions int
	// Mini is true for a miniredis.
	Mini bool
	// Clustered is true for a Redis Cluster. Addr is then one of its nodes; if all keys are in one slot, the node that has that
	// slot.
	Clustered bool

	joined bool    // State omits partitions
	shared bool    // shared with other tests
	binary *binary // for a shared cluster
	own    *connections

	options []redis.DialOption // of an external Redis
}

// connections are a test's connections to nodes. Each is dialled at its first use, and again after a failure.
type connections struct {
	mu sync.Mutex
	to map[string]redis.Conn
}

// standardPrefix is the usual Prefix. In the commands of a test it is replaced by the test's
// Prefix.
const standardPrefix = "delayer:"

// On returns a fixture for the Redis at the given address.
func On(tb testing.TB, addr string) *Fixture {
	f := &Fixture{Addr: addr, TB: tb, Prefix: standardPrefix, own: &connections{to: map[string]redis.Conn{}}}
	tb.Cleanup(f.HangUp)
	return f
}

// OnEach runs the test on a redis-server, see Open, and on miniredis. startMini starts miniredis.
func OnEach(t *testing.T, startMini func(t *testing.T) (addr string), test func(t *testing.T, f *Fixture), needs ...Need) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, Open(t, needs...).Fixture)
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		if External != "" {
			t.Skip("it is another server")
		}
		f := On(t, startMini(t))
		f.Mini = true
		test(t, f)
	})
}

// With returns the fixture for a subtest.
func (f *Fixture) With(tb testing.TB) *Fixture {
	sub := *f
	sub.TB = tb
	return &sub
}

// Conn returns the test's own connection.
func (f *Fixture) Conn() redis.Conn {
	f.TB.Helper()
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	return f.dial(f.Addr)
}

// Dial opens another connection.
func (f *Fixture) Dial() redis.Conn {
	f.TB.Helper()
	conn, err := dial(f.Addr, f.options)
	Check(f.TB, err)
	return conn
}

func (f *Fixture) dial(addr string) redis.Conn {
	f.TB.Helper()
	if conn := f.own.to[addr]; conn == nil || conn.Err() != nil {
		conn, err := dial(addr, f.options)
		Check(f.TB, err)
		f.own.to[addr] = conn
	}
	return f.own.to[addr]
}

// addrOf returns the address of the node that has the first of the test's keys among the arguments.
func (f *Fixture) addrOf(args ...any) string {
	for _, arg := range args {
		if key, ok := arg.(string); ok && f.binary != nil && strings.HasPrefix(key, f.Prefix) {
			return f.binary.ownerOf(f, key)
		}
	}
	return f.Addr
}

// Prefixes returns the prefixes of all partitions.
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

// Pool returns a pool with the given options. It is closed when the test ends.
func (f *Fixture) Pool(options ...redis.DialOption) *redis.Pool {
	if !f.Mini { // a script may take long
		options = append([]redis.DialOption{redis.DialReadTimeout(HangBound)}, options...)
	}
	options = append(slices.Clone(f.options), options...)
	pool := &redis.Pool{
		MaxIdle: 16,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			if strings.HasPrefix(f.Addr, "/") {
				return redis.DialContext(ctx, "unix", f.Addr, options...)
			}
			return redis.DialContext(ctx, "tcp", f.Addr, options...)
		},
	}
	f.TB.Cleanup(func() { pool.Close() })
	return pool
}

// SetUser gives the user u, with password p, exactly these permissions.
func (f *Fixture) SetUser(rights string) {
	f.TB.Helper()
	f.Do("ACL", redis.Args{"SETUSER", "u", "reset", "on", ">p"}.AddFlat(strings.Fields(rights))...)
}

// UserPool is like Pool for the user u.
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

// Do runs one command and fails the test on an error. In a cluster the command goes to the node that has
// the keys.
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

// checkAlone fails a test that would disturb others on a shared Redis.
func (f *Fixture) checkAlone(command string) {
	f.TB.Helper()
	if f.shared && slices.Contains([]string{"ACL", "CLIENT", "CONFIG", "DEBUG", "FLUSHALL", "INFO", "REPLICAOF", "SCRIPT", "SLOWLOG", "kill", "hang", "restart"}, command) {
		f.TB.Fatalf("%s is for tests that have their Redis to themselves: see Alone, and Flush", command)
	}
}

// ownNames replaces the standard prefix in the arguments by the test's.
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

// Flush deletes everything in Redis except what belongs to other tests.
func (f *Fixture) Flush() {
	f.TB.Helper()
	if f.shared {
		f.each(f.keys(), "UNLINK")
		return
	}
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	_, err := f.dial(f.Addr).Do("FLUSHALL")
	Check(f.TB, err)
}

// keys returns all keys except those of other tests.
func (f *Fixture) keys() (keys []string) {
	f.TB.Helper()
	if !f.shared {
		return f.Strings("KEYS", "*")
	}
	addrs := []string{f.Addr}
	if f.binary != nil {
		addrs = masters(f.binary.owners)
	}
	for _, addr := range addrs {
		keys = append(keys, f.keysAt(addr, f.Prefix+"*")...)
	}
	return keys
}

// keysAt is KEYS, which would block an external Redis for long.
func (f *Fixture) keysAt(addr, pattern string) []string {
	f.TB.Helper()
	f.own.mu.Lock()
	defer f.own.mu.Unlock()
	conn := f.dial(addr)
	if External != "" {
		keys, err := scan(conn, pattern)
		Check(f.TB, err)
		return keys
	}
	keys, err := redis.Strings(conn.Do("KEYS", pattern))
	Check(f.TB, err)
	return keys
}

// Strings is Do for a command whose reply is a list.
func (f *Fixture) Strings(command string, args ...any) []string {
	f.TB.Helper()
	if command == "KEYS" {
		args = f.ownNames(command, args)
		return f.keysAt(f.addrOf(args...), args[0].(string))
	}
	list, err := redis.Strings(f.Do(command, args...), nil)
	Check(f.TB, err)
	return list
}

// Queue returns a topic's ready queue, the next ID first. With several partitions the queues follow one another.
func (f *Fixture) Queue(topic string) (queue []string) {
	f.TB.Helper()
	for _, prefix := range f.Prefixes() {
		ids := f.Strings("LRANGE", prefix+"ready_queue:"+topic, 0, -1)
		slices.Reverse(ids)
		queue = append(queue, ids...)
	}
	return queue
}

// Clock returns Redis's clock in Unix seconds.
func (f *Fixture) Clock() float64 {
	f.TB.Helper()
	return Seconds(f.TB, f.Do("TIME"))
}

// Seconds reads a reply to TIME.
func Seconds(tb testing.TB, reply any) float64 {
	tb.Helper()
	t, err := redis.Float64s(reply, nil)
	Check(tb, err)
	return t[0] + t[1]/1e6
}

// InfoNumber returns a number from INFO, 0 if it is missing.
func (f *Fixture) InfoNumber(section, field string) int {
	f.TB.Helper()
	_, rest, _ := strings.Cut(string(f.Do("INFO", section).([]byte)), "\n"+field+":")
	return leadingNumber(rest)
}

// Connections returns how many connections Redis has, including the test's own.
func (f *Fixture) Connections() int {
	f.TB.Helper()
	return f.InfoNumber("clients", "connected_clients")
}

// AllCalls returns how often each command ran since CONFIG RESETSTAT, in scripts too.
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

// Calls returns the sum of AllCalls over the given commands, in lower case, or over all commands if none is
// named.
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

// Waiters returns how many clients are registered as waiters of the topic, -1 if partitions differ. Clients that have
// ended do not count.
func (f *Fixture) Waiters(topic string) (n int) {
	f.TB.Helper()
	for i, prefix := range f.Prefixes() {
		script := `local alive = 0
			for _, waiter in ipairs(redis.call('ZRANGE', ARGV[1] .. 'waiters:' .. ARGV[2], 0, -1)) do
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

// numsubs returns the commands that count a channel's subscribers.
func (f *Fixture) numsubs() []string {
	if f.Clustered {
		return []string{"NUMSUB", "SHARDNUMSUB"}
	}
	return []string{"NUMSUB"}
}

// AwaitWaiter waits until a client is registered as a waiter of the topic.
func (f *Fixture) AwaitWaiter(topic string) {
	f.TB.Helper()
	Until(f.TB, "somebody waits for "+topic, func() bool { return f.Waiters(topic) > 0 })
}

// AwaitProgram waits until a client that waits for jobs has registered its program in each partition. It does so after it
// has registered as a waiter, by a script of its own.
func (f *Fixture) AwaitProgram() {
	f.TB.Helper()
	for _, prefix := range f.Prefixes() {
		Until(f.TB, "a program is registered in "+prefix, func() bool { return len(f.Strings("KEYS", prefix+"client:*")) > 0 })
	}
}
