package client_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

const clusterPartitions = 16

func inCluster(t *testing.T, c *redistest.Cluster) *client.Client {
	t.Helper()
	cl := redistest.Must(client.OpenPool(client.PoolOptions{Cluster: c.Addrs(), Partitions: clusterPartitions}))
	t.Cleanup(func() { cl.Close() })
	return cl
}

// A Client finds the partitions on all nodes, and each of them wakes it.
func TestCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := inCluster(t, redistest.StartCluster(t))
	ctx, topic := t.Context(), "{t}:{u"
	check(t, c.Ping(ctx))
	push := func(id string) {
		t.Helper()
		_, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: "b"}, 0)
		check(t, err)
	}
	ids := map[string]bool{}
	for i := range 100 {
		id := []string{"{a%d}b{", "%d", "}{%d{}", "{}%d"}[i%4]
		ids[fmt.Sprintf(id, i)] = true
		push(fmt.Sprintf(id, i))
	}
	stats, err := c.Stats(ctx)
	if err != nil || len(stats.Topics) != 1 || stats.Topics[0].Ready != 100 {
		t.Errorf("stats %+v, %v", stats, err)
	}
	for i := range 100 {
		if i%2 == 0 {
			m, err := c.Pop(ctx, topic)
			check(t, err)
			delete(ids, m.ID)
			continue
		}
		d, err := c.Reserve(ctx, time.Second, 0, topic)
		check(t, err)
		delete(ids, d.ID)
		check(t, d.Ack(ctx))
	}
	if len(ids) > 0 {
		t.Errorf("%d jobs are missing", len(ids))
	}
	for i := range 20 {
		waiting := background(func() (client.Message, error) { return c.BPop(ctx, 0, topic) })
		push(fmt.Sprintf("late%d", i))
		got := redistest.Receive(t, waiting)
		check(t, got.err)
	}
}

// The permissions in docs/operating.md suffice in a cluster, too, for pushing, moving, waiting, reserving and
// acknowledging.
func TestRightsInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, s := range cluster.Servers {
		s.SetUser(redistest.Rights(t, "daemon", "producer", "worker", "cluster"))
	}
	user := client.PoolOptions{Cluster: cluster.Addrs(), Partitions: clusterPartitions, Username: "u", Password: "p"}
	pool := connect(user)
	defer pool.Close()
	work := server.New(pool, server.Options{Partitions: clusterPartitions})
	check(t, work.Check(t.Context()))
	redistest.Background(t, work.Run)
	c := redistest.Must(client.OpenPool(user))
	defer c.Close()
	for i := range 20 {
		waiting := background(func() (client.Message, error) {
			d, err := c.Reserve(t.Context(), 0, 0, "t")
			if err != nil {
				return client.Message{}, err
			}
			return d.Message, d.Ack(t.Context())
		})
		id := fmt.Sprint(i)
		_, err := c.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 10*time.Millisecond)
		check(t, err)
		expectJob(t, waiting, id)
	}
	check(t, c.BackOff(t.Context(), "t", time.Hour))
	_, err := c.PushBatch(t.Context(), jobs(0, 50, "t", 0))
	check(t, err)
	if n, err := c.PopBatch(t.Context(), "t", 50); len(n) > 0 || !errors.Is(err, client.ErrEmpty) {
		t.Errorf("popped %d of a topic that is backed off from, %v", len(n), err)
	}
	if paused, err := c.Paused(t.Context()); len(paused) != 1 || err != nil {
		t.Errorf("paused are %+v, %v", paused, err)
	}
	check(t, errOf(c.Resume(t.Context(), "t")))
	if n, err := c.PopBatch(t.Context(), "t", 50); len(n) != 50 || err != nil {
		t.Errorf("popped %d once it is resumed, %v", len(n), err)
	}
	for _, s := range cluster.Servers {
		if log := s.Do("ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %s", fmt.Sprint(log[0]))
		}
	}
}
