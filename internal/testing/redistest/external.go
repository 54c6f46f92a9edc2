package redistest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// External is the URL, as client.ParseURL takes it, of somebody's Redis on which Open lets tests run: make conformance. Nothing is
// configured or flushed there, and all keys begin with conformance. Tests that need a Redis of their own are skipped.
var External = os.Getenv("DELAYER_CONFORMANCE")

// conformance begins the names of all keys and channels on an external Redis. The number is the run's, so that its keys can be
// found.
var conformance = fmt.Sprintf("delayer-conformance-%08x-", rand.Uint32())

// external is a Redis that runs already.
type external struct {
	addr    string // of the server, or of the first node that answers
	options []redis.DialOption
	divided bool    // into partitions; how many is for the tests to say
	owners  []owner // of a cluster's slots
}

// owner is the master of a range of slots.
type owner struct {
	first, last int
	addr        string
}

// runExternal runs the tests on the external Redis, prints the results, and deletes what the tests have left, also after Ctrl-C.
func runExternal(m *testing.M) (code int) {
	e, err := findExternal(External)
	if err == nil {
		var text string
		if text, err = e.describe(); err == nil {
			fmt.Println(text)
		}
	}
	if err != nil {
		fmt.Println("the Redis in DELAYER_CONFORMANCE can't be used:", err)
		return 1
	}
	theBinary.external, theBinary.owners = e, e.owners
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		for n, err := 1, error(nil); n > 0 && err == nil; { // tests still write
			if n, err = e.sweep(); err != nil {
				fmt.Println("not all keys of the run could be deleted:", err)
			}
		}
		os.Exit(1)
	}()
	code = m.Run()
	fmt.Print(outcomes.table())
	if _, err := e.sweep(); err != nil {
		fmt.Println("not all keys of the run could be deleted:", err)
		return 1
	}
	return code
}

// NotExternal skips a test on an external Redis.
func NotExternal(tb testing.TB, why string) {
	tb.Helper()
	if External != "" {
		outcomes.skip(tb, why)
		tb.Skip("not on an external Redis: " + why)
	}
}

// findExternal connects to the Redis at the URL.
func findExternal(rawURL string) (*external, error) {
	scheme, rest, _ := strings.Cut(rawURL, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		end = i
	}
	begin := strings.LastIndex(rest[:end], "@") + 1
	hosts, port := strings.Split(rest[begin:end], ","), "6379" // net/url takes one host only
	if strings.HasSuffix(scheme, "-sentinel") {
		port = "26379"
	}
	u, err := url.Parse(scheme + "://" + rest[:begin] + rest[end:])
	if err != nil {
		return nil, fmt.Errorf("the URL in DELAYER_CONFORMANCE is malformed") // the cause may quote a password
	}
	query, e := u.Query(), &external{}
	n, _ := strconv.Atoi(query.Get("partitions"))
	e.divided = n > 1
	secure := []redis.DialOption{redis.DialUseTLS(strings.HasPrefix(scheme, "rediss"))}
	user, password := u.User.Username(), ""
	if p, both := u.User.Password(); both {
		password = p
	} else {
		user, password = "", user
	}
	database, _ := strconv.Atoi(cmp.Or(query.Get("db"), strings.TrimPrefix(u.Path, "/")))
	e.options = append(secure, redis.DialUsername(user), redis.DialPassword(password), redis.DialDatabase(database))
	if scheme == "unix" {
		e.addr = u.Path
		return e, nil
	}
	for _, host := range hosts {
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			host = cmp.Or(host, "127.0.0.1") + ":" + port
		}
		if err = e.find(scheme, host, query, secure); err == nil {
			break
		}
	}
	return e, err
}

// find asks a sentinel for the master, a node for the slots, or takes the only server.
func (e *external) find(scheme, host string, query url.Values, secure []redis.DialOption) error {
	e.addr = host
	switch {
	case strings.HasSuffix(scheme, "-sentinel"):
		conn, err := redis.Dial("tcp", host, append(secure, redis.DialUsername(query.Get("sentinel_username")), redis.DialPassword(query.Get("sentinel_password")))...)
		if err != nil {
			return err
		}
		defer conn.Close()
		at, err := redis.Strings(conn.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", query.Get("master")))
		if err != nil {
			return err
		}
		e.addr = at[0] + ":" + at[1]
	case strings.HasSuffix(scheme, "-cluster"):
		owners, err := ownersAt(host, e.options)
		e.owners = owners
		return err
	}
	return nil
}

// ownersAt asks a node of a cluster for the masters and their slots.
func ownersAt(node string, options []redis.DialOption) (owners []owner, err error) {
	conn, err := dial(node, options)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ranges, err := redis.Values(conn.Do("CLUSTER", "SLOTS"))
	for _, r := range ranges {
		of := r.([]any)
		master := of[2].([]any)
		owners = append(owners, owner{int(of[0].(int64)), int(of[1].(int64)), fmt.Sprintf("%s:%d", master[0], master[1])})
	}
	return owners, err
}

// dial connects to a server, or to a socket.
func dial(addr string, options []redis.DialOption) (redis.Conn, error) {
	if strings.HasPrefix(addr, "/") {
		return redis.Dial("unix", addr, options...)
	}
	return redis.Dial("tcp", addr, options...)
}

// sweep deletes what the run has left, and returns how many keys those were.
func (e *external) sweep() (n int, err error) {
	addrs := []string{e.addr}
	if len(e.owners) > 0 {
		addrs = masters(e.owners)
	}
	for _, addr := range addrs {
		conn, err := dial(addr, e.options)
		if err != nil {
			return n, err
		}
		defer conn.Close()
		keys, err := scan(conn, conformance+"*")
		if err != nil {
			return n, err
		}
		for _, key := range keys {
			if _, err := conn.Do("UNLINK", key); err != nil {
				return n, err
			}
		}
		n += len(keys)
	}
	return n, nil
}

// scan is KEYS without blocking somebody's Redis.
func scan(conn redis.Conn, pattern string) (keys []string, err error) {
	seen := map[string]bool{}
	for cursor := "0"; ; {
		reply, err := redis.Values(conn.Do("SCAN", cursor, "MATCH", pattern, "COUNT", 1000))
		if err != nil {
			return nil, err
		}
		var page []string
		if _, err := redis.Scan(reply, &cursor, &page); err != nil {
			return nil, err
		}
		for _, key := range page {
			if !seen[key] { // SCAN may return a key twice
				seen[key], keys = true, append(keys, key)
			}
		}
		if cursor == "0" {
			return keys, nil
		}
	}
}

// masters returns the addresses of the masters.
func masters(owners []owner) (addrs []string) {
	seen := map[string]bool{}
	for _, o := range owners {
		if !seen[o.addr] {
			seen[o.addr], addrs = true, append(addrs, o.addr)
		}
	}
	return addrs
}

// describe returns the name and version of the server, and a warning about an eviction policy that discards jobs. No test would show
// that.
func (e *external) describe() (text string, err error) {
	conn, err := dial(e.addr, e.options)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO"))
	if err != nil {
		return "of unknown version: " + err.Error(), nil
	}
	says := map[string]string{}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		says[name] = value
	}
	text = "Redis " + cmp.Or(says["redis_version"], "of unknown version")
	for _, other := range []string{"valkey", "dragonfly", "kvrocks", "garnet"} {
		if version := says[other+"_version"]; version != "" {
			text += ", " + other + " " + version
		}
	}
	text += ", " + cmp.Or(says["redis_mode"], says["server_mode"], "of unknown mode")
	if policy := says["maxmemory_policy"]; policy != "" && policy != "noeviction" {
		text += "\nwarning: it evicts jobs when it is full: its maxmemory-policy is " + policy + ", want noeviction"
	}
	return text, nil
}
