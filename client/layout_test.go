package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// withoutNode returns a cluster whose node with partition 0 is permanently gone. away has the partitions that are gone
// with it, here has the other ones. The layout is stored, unless undecided is set.
func withoutNode(t *testing.T, undecided bool) (cluster *redistest.Cluster, away, here []int) {
	t.Helper()
	cluster = redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	if !undecided {
		c := inCluster(t, cluster)
		check(t, c.Ping(t.Context()))
		check(t, c.Close())
	}
	gone := cluster.Owner(cluster.Slot("{0}"))
	for p := range clusterPartitions {
		if cluster.Owner(cluster.Slot(fmt.Sprintf("{%d}", p))) == gone {
			away = append(away, p)
		} else {
			here = append(here, p)
		}
	}
	for i, s := range cluster.Servers[:3] {
		if s == gone {
			cluster.Servers[3+i].Kill() // no replica takes over
		}
	}
	gone.Kill()
	return cluster, away, here
}

// While the node of partition 0 is away, programs that start can use the other partitions: a Client pushes and takes
// jobs, a worker handles jobs, a server delivers them, and an operator sees which partitions are away.
func TestStartWithoutPartition0(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster, away, here := withoutNode(t, false)
	ctx := t.Context()
	pool := redistest.Must(client.Connect(client.PoolOptions{Cluster: cluster.Addrs()}))
	t.Cleanup(func() { pool.Close() })

	counts, err := inspect.New(pool, "", fleet.Layout{Partitions: clusterPartitions}).Counts(ctx)
	check(t, err)
	var unreadable []int
	for _, p := range counts.Partitions {
		if p.Err != nil {
			unreadable = append(unreadable, p.Number)
		}
	}
	if fmt.Sprint(unreadable) != fmt.Sprint(away) {
		t.Errorf("unreadable are the partitions %v, want %v", unreadable, away)
	}

	redistest.Background(t, server.New(pool, server.Options{Partitions: clusterPartitions, Interval: 20 * time.Millisecond}).Run)
	want := map[string]bool{}
	c := inCluster(t, cluster)
	for _, p := range here {
		want[idOf(p, 1)] = true
		check(t, errOf(c.Push(ctx, client.Message{ID: idOf(p, 1), Topic: "t", Body: "b"}, time.Millisecond)))
	}
	done := make(chan string, len(here))
	mux := worker.NewMux()
	mux.HandleFunc("t", func(_ context.Context, j *worker.Job) error { done <- j.ID; return nil })
	redistest.Background(t, worker.New(inCluster(t, cluster), mux, worker.Options{Concurrency: 2}).Run)
	for range here {
		id := redistest.Receive(t, done)
		if !want[id] {
			t.Errorf("%s was delivered", id)
		}
		delete(want, id)
	}
}

// The first pushes of a Client, all at once, fail only where their partition's node is away.
func TestFirstPushesWithoutANode(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster, away, _ := withoutNode(t, false)
	c := inCluster(t, cluster)
	failed := make([]chan error, clusterPartitions)
	for p := range failed {
		failed[p] = make(chan error, 1)
		go func() {
			failed[p] <- errOf(c.Push(t.Context(), client.Message{ID: idOf(p, 1), Topic: "t", Body: "b"}, time.Hour))
		}()
	}
	var gone []int
	for p := range failed {
		if redistest.Receive(t, failed[p]) != nil {
			gone = append(gone, p)
		}
	}
	if fmt.Sprint(gone) != fmt.Sprint(away) {
		t.Errorf("pushes have failed in %v, want %v", gone, away)
	}
}

// Without partition 0 no layout is decided, neither the first one nor a later one. Copies cause no permanent refusal,
// because partition 0 decides.
func TestNoDecisionWithoutPartition0(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for name, undecided := range map[string]bool{"a first layout": true, "another layout": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, _, here := withoutNode(t, undecided)
			for _, o := range []client.PoolOptions{
				{Partitions: clusterPartitions + 1},
				{Partitions: 2 * clusterPartitions, PreviousPartitions: clusterPartitions},
				{Partitions: clusterPartitions},
			} {
				if o.Partitions == clusterPartitions && !undecided {
					continue
				}
				o.Cluster = cluster.Addrs()
				c := redistest.Must(client.OpenPool(o))
				_, err := c.Push(t.Context(), client.Message{ID: idOf(here[0], 1), Topic: "t", Body: "b"}, 0)
				if err == nil || errors.As(err, new(*fleet.LayoutError)) || strings.Contains(err.Error(), "partitions is") {
					t.Errorf("with %d partitions: %v", o.Partitions, err)
				}
				check(t, c.Close())
			}
		})
	}
}
