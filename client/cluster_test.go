package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
)

// A Client finds the partitions wherever they are.
func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := client.OpenPool(client.PoolOptions{Cluster: cluster.Addrs(), Partitions: 16})
	defer c.Close()
	ctx := t.Context()
	check(t, c.Ping(ctx))
	for i := range 100 {
		_, err := c.Push(ctx, client.Message{ID: fmt.Sprintf("{a%d}b{", i), Topic: "t{1}", Body: "b"}, 0)
		check(t, err)
	}
	for range 50 {
		_, err := c.Pop(ctx, "t{1}")
		check(t, err)
	}
	for range 50 {
		d, err := c.Reserve(ctx, time.Second, 0, "t{1}")
		check(t, err)
		check(t, d.Ack(ctx))
	}
}
