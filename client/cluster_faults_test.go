package client_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// idOf returns an ID of this partition.
func idOf(partition, n int) string {
	for k := 0; ; k++ {
		tag := fmt.Sprintf("{%d}", k)
		if store.PartitionOf(tag, clusterPartitions) == partition {
			return fmt.Sprint(tag, n)
		}
	}
}

// The nodes of a cluster may have names and speak TLS: to clients, to each other, and in redirects.
func TestTLSCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster, addrs, roots := redistest.StartTLSCluster(t)
	c := redistest.Must(client.OpenPool(client.PoolOptions{Cluster: addrs, Partitions: clusterPartitions, TLS: &tls.Config{RootCAs: roots}}))
	defer c.Close()
	all := func() {
		t.Helper()
		for p := range clusterPartitions {
			waiting := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
			_, err := c.Push(t.Context(), client.Message{ID: idOf(p, 0), Topic: "t", Body: "b"}, 0)
			check(t, err)
			expectJob(t, waiting, idOf(p, 0))
		}
	}
	all()
	slot := cluster.Slot("{3}")
	cluster.MoveSlot(slot, otherMasters(cluster, slot)[0])
	all()
}

// While a slot moves, no job in it can become a dead letter or be requeued, because a script cannot write to a key that
// has not arrived. Such calls wait until the slot has moved.
func TestDeadLettersWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := inCluster(t, cluster)
	ctx, slot := t.Context(), cluster.Slot("{3}")
	reserve := func(n int) *client.Delivery {
		t.Helper()
		_, err := c.Push(ctx, client.Message{ID: idOf(3, n), Topic: "t", Body: "b"}, 0, client.JobOptions{MaxAttempts: 1})
		check(t, err)
		d, err := c.Reserve(ctx, time.Minute, "t")
		check(t, err)
		return d
	}
	check(t, reserve(0).Bury(ctx, errors.New("why")))
	_, err := c.Push(ctx, client.Message{ID: idOf(3, 3), Topic: "t", Body: "b"}, time.Hour) // keeps the pool's key from vanishing, because scripts name it
	check(t, err)
	bury, retry := reserve(1), reserve(2)
	for _, job := range []struct {
		name string
		call func() error
	}{
		{"bury", func() error { return bury.Bury(ctx, errors.New("why")) }},
		{"the last retry", func() error { return retry.Retry(ctx, 0, nil) }},
		{"requeue", func() error { return c.Requeue(ctx, idOf(3, 0)) }},
	} {
		from, to := cluster.Owner(slot), otherMasters(cluster, slot)[0]
		m := cluster.BeginMove(slot, to)
		before := from.Calls("evalsha", "eval")
		done := failing(job.call)
		redistest.Until(t, job.name+" is refused, and tried again", func() bool { return from.Calls("evalsha", "eval") >= before+3 })
		m.End()
		err := redistest.Receive(t, done).err
		if job.name == "the last retry" && errors.Is(err, client.ErrExhausted) {
			err = nil
		}
		if err != nil {
			t.Errorf("%s: %v", job.name, err)
		}
	}
	dead := map[string]bool{}
	for letter, err := range c.Dead(ctx, "t") {
		check(t, err)
		dead[letter.ID] = true
	}
	if want := map[string]bool{idOf(3, 1): true, idOf(3, 2): true}; !maps.Equal(dead, want) {
		t.Errorf("dead are %v, want %v", dead, want)
	}
	job, err := c.Reserve(ctx, time.Minute, "t")
	check(t, err)
	if job.ID != idOf(3, 0) {
		t.Errorf("ready is %s", job.ID)
	}
}

// While a master hangs, its partitions are unreachable, and the other masters' partitions work. After its replica has
// taken over, all partitions work. When the old master continues, as a replica, no Client takes it for the master.
func TestHungNode(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := inCluster(t, cluster)
	push := func(partition, n int) error {
		_, err := c.Push(t.Context(), client.Message{ID: idOf(partition, n), Topic: "t", Body: "b"}, 0)
		return err
	}
	for p := range clusterPartitions { // it has connections to all nodes
		check(t, push(p, 0))
		check(t, errOf(c.Pop(t.Context(), "t")))
	}
	const hung = 5
	slot := func(p int) int { return cluster.Slot(fmt.Sprintf("{%d}", p)) }
	master, elsewhere := cluster.Owner(slot(hung)), 0
	for cluster.Owner(slot(elsewhere)) == master {
		elsewhere++
	}
	cluster.Hang(master)
	waiting := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	check(t, push(elsewhere, 1))
	expectJob(t, waiting, idOf(elsewhere, 1))

	cluster.AwaitOwner(slot(hung), master)
	redistest.Until(t, "its partitions are pushed to at the replica", func() bool { return push(hung, 1) == nil })
	redistest.Until(t, "and popped from", func() bool {
		m, err := c.Pop(t.Context(), "t")
		return err == nil && m.ID == idOf(hung, 1)
	})
	cluster.Continue()
	for n := range 20 {
		check(t, push(hung, 2+n))
		m, err := c.Pop(t.Context(), "t")
		if err != nil || m.ID != idOf(hung, 2+n) {
			t.Errorf("popped %+v, %v", m, err)
		}
	}
}

// A cluster that works without some slots (cluster-require-full-coverage no) delivers the jobs of the slots that it
// has, and the other jobs once their master is back.
func TestUncoveredSlots(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes", "--appendonly", "yes", "--appendfsync", "always")
	c := inCluster(t, cluster)
	const gone = 5
	slot := func(p int) int { return cluster.Slot(fmt.Sprintf("{%d}", p)) }
	master := cluster.Owner(slot(gone))
	want := map[string]bool{}
	for p := range clusterPartitions {
		check(t, errOf(c.Push(t.Context(), client.Message{ID: idOf(p, 0), Topic: "t", Body: "b"}, 0)))
		if cluster.Owner(slot(p)) != master {
			want[idOf(p, 0)] = true
		}
	}
	left := clusterPartitions - len(want)
	cluster.Kill(master)
	for len(want) > 0 {
		m, err := c.BPop(t.Context(), hangBound, "t")
		check(t, err)
		if !want[m.ID] {
			t.Fatalf("popped %s", m.ID)
		}
		delete(want, m.ID)
	}
	if _, err := c.Push(t.Context(), client.Message{ID: idOf(gone, 1), Topic: "t", Body: "b"}, 0); err == nil || !store.Temporary(err) {
		t.Errorf("a push to a partition that nobody serves: %v", err)
	}
	if m, err := c.Pop(t.Context(), "t"); err == nil || errors.Is(err, client.ErrEmpty) {
		t.Errorf("that no job is there can't be known: %v, %v", m, err)
	}
	waiting := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "t") })
	master.Restart()
	check(t, redistest.Receive(t, waiting).err)
	for range left - 1 {
		check(t, errOf(c.BPop(t.Context(), hangBound, "t")))
	}
}

// While a node is away, pushes without IDs go to partitions of other nodes. A push whose reply was lost fails, because a
// second one could store the job twice.
func TestPushWithoutIDWhileANodeIsAway(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for name, breaks := range map[string]func(*redistest.Cluster, *redistest.Server){"gone": (*redistest.Cluster).Kill, "hangs": (*redistest.Cluster).Hang} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no", "--cluster-replica-no-failover", "yes")
			first := inCluster(t, cluster)
			check(t, errOf(first.Push(t.Context(), client.Message{ID: idOf(0, 0), Topic: "layout", Body: "b"}, 0)))
			check(t, first.Close())
			away := otherMasters(cluster, cluster.Slot("{0}"))[0] // the owner of {0} has the layout
			breaks(cluster, away)
			c := inCluster(t, cluster)
			stored, lost := map[string]bool{}, 0
			var mu sync.Mutex
			push := func(body string) {
				_, err := c.Push(t.Context(), client.Message{Topic: "t", Body: body}, 0)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					stored[body] = true
				} else if lost++; name == "gone" {
					t.Errorf("push %s: %v", body, err)
				}
			}
			const pushes = 60
			var all sync.WaitGroup
			for n := range pushes {
				all.Go(func() { push(fmt.Sprint(n)) })
			}
			all.Wait()
			if name == "hangs" {
				cluster.Continue()
			} else {
				away.Restart()
			}
			cluster.AwaitHealth()
			for found := 0; ; found++ {
				m, err := c.Pop(t.Context(), "t")
				if errors.Is(err, client.ErrEmpty) {
					if found > pushes || found < pushes-lost {
						t.Errorf("%d jobs of %d pushes, %d of which failed", found, pushes, lost)
					}
					break
				}
				check(t, err)
				delete(stored, m.Body)
			}
			if len(stored) > 0 {
				t.Errorf("%d jobs are lost", len(stored))
			}
		})
	}
}

// The first pushes of a Client, all at once, fail only where their partition's node is away.
func TestFirstPushesWithoutANode(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t, "--cluster-require-full-coverage", "no")
	asked := cluster.Owner(cluster.Slot("{0}")) // for the number of partitions
	node := slices.IndexFunc(cluster.Servers[:3], func(s *redistest.Server) bool { return s != asked })
	var away []int
	for p := range clusterPartitions {
		if cluster.Owner(cluster.Slot(fmt.Sprintf("{%d}", p))) == cluster.Servers[node] {
			away = append(away, p)
		}
	}
	cluster.Servers[3+node].Kill() // no replica takes over
	cluster.Servers[node].Kill()

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
