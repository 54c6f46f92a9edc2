package client_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
