package inspect

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (f *fixture) info() Info {
	f.TB.Helper()
	all, err := f.Info(f.ctx)
	f.check(err)
	if len(all) != 1 || all[0].Node != "" {
		f.TB.Errorf("%+v, want that of one Redis", all)
	}
	return all[0]
}

func TestInfo(t *testing.T) {
	t.Parallel()
	f := newFixture(redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes").Fixture)
	info := f.info()
	if !strings.Contains(info.Version, ".") || info.Role != "master" || info.Clients < 1 || info.UsedMemory <= 0 || info.MaxMemory != 100<<20 ||
		info.Policy != "allkeys-lru" || info.AOF != "ok" || info.Snapshot != "ok" || info.Unsaved != 0 || info.Uptime < 0 || info.Uptime > time.Hour ||
		time.Since(info.SnapshotAt) > time.Hour || info.Missing != "" {
		t.Errorf("%+v", info)
	}
	f.Do("CONFIG", "SET", "appendonly", "no")
	if info := f.info(); info.AOF != "off" {
		t.Errorf("without an append-only file: %+v", info)
	}
	f.Do("ACL", "SETUSER", "default", "-info")
	if info := f.info(); !strings.Contains(info.Missing, "NOPERM") || info.Version != "" || info.UsedMemory != Unknown || info.Uptime != Unknown || !info.SnapshotAt.IsZero() {
		t.Errorf("without INFO: %+v", info)
	}
}

// Each node of a cluster is queried, and the result lists its partitions.
func TestInfoOfCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	pool := redistest.Must(client.Connect(client.PoolOptions{Cluster: c.Addrs(), Partitions: 16}))
	t.Cleanup(func() { pool.Close() })
	o := New(clienttest.Jobs(pool, ""))
	partitions, err := o.Partitions(t.Context())
	redistest.Check(t, err)
	on := map[string]bool{}
	for _, p := range partitions {
		on[p.Node] = true
	}
	all, err := o.Info(t.Context())
	redistest.Check(t, err)
	for _, info := range all {
		if !on[info.Node] || !slices.Contains(c.Addrs(), info.Node) || info.Role != "master" {
			t.Errorf("%+v, with partitions on %v", info, on)
		}
	}
	if len(all) != 3 || len(on) != 3 {
		t.Errorf("%d nodes, and partitions on %v", len(all), on)
	}
}

func TestInfoOfDev(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		if info := f.info(); f.Mini && (info.Clients < 1 || info.Version != "" || info.AOF != "" || info.Snapshot != "" || info.MaxMemory != Unknown || info.Missing != "") {
			t.Errorf("%+v", info)
		}
	})
}

// A broken pool and an unreachable Redis are errors that name the call.
func TestErrorsNameTheCall(t *testing.T) {
	t.Parallel()
	f, server := onRedis(t)
	ofPool := map[string]func() error{
		"count jobs that fall due": func() error { _, err := f.Forecast(f.ctx, []time.Duration{time.Hour}); return err },
		"sample waiting jobs":      func() error { _, err := f.Shares(f.ctx, 10); return err },
		"count jobs":               func() error { _, err := f.Counts(f.ctx); return err },
		"list jobs":                func() error { _, err := f.Browse(f.ctx, Query{State: Waiting}); return err },
	}
	expect := func(why string, calls map[string]func() error) {
		t.Helper()
		for name, call := range calls {
			if err := call(); err == nil || !strings.HasPrefix(err.Error(), name) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	f.text("job_pool")
	expect("WRONGTYPE", ofPool)
	server.Kill()
	expect("", ofPool)
	expect("", map[string]func() error{
		"read INFO": func() error { _, err := f.Info(f.ctx); return err },
		"purge":     func() error { _, err := f.Purge(f.ctx, "t", math.MaxInt); return err },
	})
}
