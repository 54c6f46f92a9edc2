package conformance

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// named is the environment variable that names the URL of the Redis for make conformance.
const named = "DELAYER_CONFORMANCE"

// TestConformance tests the named Redis, or private ones of each kind. It leaves other keys alone and
// deletes its own.
func TestConformance(t *testing.T) {
	redistest.Long(t)
	if url := os.Getenv(named); url != "" {
		newRun(t, url).try(t, url)
		return
	}
	for _, kind := range []struct {
		name  string
		start func(t *testing.T) (url string)
	}{
		{"alone", func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr }},
		{"as a user with few rights", func(t *testing.T) string {
			f := redistest.Start(t)
			f.SetUser(redistest.Rights(t, "daemon", "producer", "consumer", "worker", "operator", "migrator") +
				" ~delayer-conformance-* &delayer-conformance-* +scan +set +info") // docs/conformance.md
			return "redis://u:p@" + f.Addr
		}},
		{"partitioned", func(t *testing.T) string { return "redis://" + redistest.Start(t).Addr + "?partitions=3" }},
		{"replicated", func(t *testing.T) string {
			master := redistest.Start(t)
			redistest.StartReplica(t, master)
			return "redis://" + master.Addr
		}},
		{"sentinels", func(t *testing.T) string {
			return "redis-sentinel://" + redistest.StartSentinels(t).Addrs() + "?master=m"
		}},
		{"cluster", func(t *testing.T) string {
			return "redis-cluster://" + redistest.StartCluster(t).Addrs() + "?partitions=8"
		}},
		{"miniredis", func(t *testing.T) string {
			m, err := devredis.Start("127.0.0.1:0")
			check(t, err)
			t.Cleanup(m.Close)
			return "redis://" + m.Addr
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			url := kind.start(t)
			r := newRun(t, url)
			r.do(t, "ZADD", store.DefaultPrefix+"job_pool", 1, "another's job")
			r.do(t, "SET", "delayer-conformance-", "another's")
			others := r.all(t)
			r.try(t, url)
			expect(t, "the keys that are left", r.all(t), nil, others)
		})
	}
}

// try runs all trials on the Redis at that URL and prints the table.
func (r *run) try(t *testing.T, url string) {
	var stop func()
	r.interrupted, stop = signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	table := fmt.Sprintf("\n%s: %s\n%s", withoutPassword(url), r.server(t), r.warning(t))
	defer r.forget(t)
	table += r.table("script", scripts) + r.table("promise", promises)
	fmt.Print(table)
}

// withoutPassword removes the credentials from a URL, which may have several hosts.
func withoutPassword(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "a Redis"
	}
	query := u.Query()
	query.Del("sentinel_password")
	u.User, u.RawQuery = nil, query.Encode()
	return u.String()
}

// run is one run on a Redis. All its keys start with its prefix.
type run struct {
	t           *testing.T
	redis       client.PoolOptions
	pool        client.Redis
	prefix      string
	stages      int
	interrupted context.Context
}

func newRun(t *testing.T, rawURL string) *run {
	o, err := client.ParseURL(rawURL)
	check(t, err)
	whole := o
	whole.Partitions, whole.PreviousPartitions = 0, 0
	return newRunOn(t, o, client.Connect(whole))
}

func newRunOn(t *testing.T, o client.PoolOptions, pool client.Redis) *run {
	t.Cleanup(func() { pool.Close() })
	return &run{t: t, redis: o, pool: pool, prefix: fmt.Sprintf("delayer-conformance-%016x:", rand.Uint64()), interrupted: t.Context()}
}

// server returns the server's name and version. The test fails if it cannot be reached.
func (r *run) server(t *testing.T) string {
	t.Helper()
	says, err := store.New(r.pool, r.prefix+"{info}:").Info(t.Context())
	if err != nil && store.KindOf(err) == store.NoAnswer {
		t.Fatal(err)
	}
	text := cmp.Or(says["redis_version"], "of unknown version")
	for _, other := range []string{"valkey", "dragonfly", "kvrocks", "garnet"} {
		if version := says[other+"_version"]; version != "" {
			text += ", " + other + " " + version
		}
	}
	return fmt.Sprintf("Redis %s, %s", text, cmp.Or(says["redis_mode"], says["server_mode"], "of unknown mode"))
}

// warning returns a warning about an eviction policy that discards jobs. No trial would show that.
func (r *run) warning(t *testing.T) string {
	nodes := store.OneOfEachNode(fleet.Layout{Partitions: r.redis.Partitions}.Open(r.pool, r.prefix).Stores)
	for _, node := range nodes {
		says, _ := node.Info(t.Context())
		if policy := says["maxmemory_policy"]; policy != "" && policy != "noeviction" {
			return fmt.Sprintf("\nwarning: it evicts jobs when it is full: its maxmemory-policy is %s, want noeviction\n", policy)
		}
	}
	return ""
}

// A Redis that evicts keys gets a warning, even if it is a single node of a cluster. Others get
// none.
func TestWarning(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	alone := redistest.Start(t)
	discreet := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	discreet.SetUser("~* &* +@all -info")
	urls := []string{"redis://" + alone.Addr, "redis-cluster://" + cluster.Addrs() + "?partitions=16", "redis://u:p@" + discreet.Addr}
	expectAll := func(want ...string) {
		t.Helper()
		for i, url := range urls {
			r := newRun(t, url)
			r.server(t)
			expect(t, "the warning", r.warning(t), nil, want[i])
		}
	}
	expectAll("", "", "")
	alone.Do("CONFIG", "SET", "maxmemory-policy", "volatile-ttl")
	cluster.Servers[2].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	line := "\nwarning: it evicts jobs when it is full: its maxmemory-policy is %s, want noeviction\n"
	expectAll(fmt.Sprintf(line, "volatile-ttl"), fmt.Sprintf(line, "allkeys-lru"), "")
}

var check = redistest.Check
