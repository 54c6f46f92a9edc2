package client_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
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

// otherMasters returns the masters that do not own the slot.
func otherMasters(c *redistest.Cluster, slot int) []*redistest.Server {
	owner := c.Owner(slot)
	return slices.DeleteFunc(slices.Clone(c.Servers[:3]), func(s *redistest.Server) bool { return s == owner })
}

// The permissions in docs/access.md suffice in a cluster, too, for pushing, moving, waiting, reserving and
// acknowledging.
func TestRightsInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	for _, s := range cluster.Servers {
		s.SetUser(redistest.Rights(t, "daemon", "producer", "worker", "cluster"))
	}
	user := client.PoolOptions{Cluster: cluster.Addrs(), Partitions: clusterPartitions, Username: "u", Password: "p"}
	pool := redistest.Must(client.Connect(user))
	defer pool.Close()
	work := redistest.Must(server.New(pool, server.Options{Logger: slog.New(slog.DiscardHandler)}))
	check(t, work.Check(t.Context()))
	redistest.Background(t, work.Run)
	c := redistest.Must(client.OpenPool(user))
	defer c.Close()
	for i := range 20 {
		waiting := background(func() (client.Message, error) {
			d, err := c.Reserve(t.Context(), 0, "t")
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
	check(t, c.Throttle(t.Context(), "t", time.Hour))
	_, err := c.PushBatch(t.Context(), jobs(0, 50, "t", 0))
	check(t, err)
	if n, err := c.Fetch(t.Context(), clienttest.Popped("t", 50)); len(n) > 0 || !errors.Is(err, client.ErrEmpty) {
		t.Errorf("popped %d of a throttled topic, %v", len(n), err)
	}
	if paused, err := c.Paused(t.Context()); len(paused) != 1 || err != nil {
		t.Errorf("paused are %+v, %v", paused, err)
	}
	check(t, errOf(c.Resume(t.Context(), "t")))
	if n := clienttest.All(t, c, clienttest.Popped("t", 50)); len(n) != 50 {
		t.Errorf("popped %d once it is resumed", len(n))
	}
	for _, s := range cluster.Servers {
		if log := s.Do("ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %s", fmt.Sprint(log[0]))
		}
	}
}
