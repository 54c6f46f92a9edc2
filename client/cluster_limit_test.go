package client_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// limited is a topic of a cluster with consumers; held counts the jobs in progress.
type limited struct {
	client.Limit
	topic  string
	held   atOnce
	pushed int // number of jobs
}

// consume reserves jobs of the topic, and settles each one soon or never.
func (l *limited) consume(ctx context.Context, c *client.Client, lease time.Duration) {
	for ctx.Err() == nil {
		d, err := c.Reserve(ctx, lease, l.topic)
		if err != nil {
			continue
		}
		key := fmt.Sprint(d.ID, d.Token)
		l.held.begins(key, d.Deadline())
		if rand.N(50) == 0 {
			continue // the consumer dies
		}
		time.Sleep(rand.N(2 * time.Millisecond))
		l.held.ends(key)
		d.Ack(ctx)
	}
}

// next returns the topic's next job.
func (l *limited) next() client.Message {
	l.pushed++
	id := fmt.Sprintf("%s %d", l.topic, l.pushed)
	if l.Tag != "" {
		id = fmt.Sprintf("{%s}%d", l.Tag, l.pushed)
	}
	return client.Message{ID: id, Topic: l.topic, Body: "b"}
}

// push pushes jobs of the topic.
func (l *limited) push(t *testing.T, c *client.Client, n int) {
	t.Helper()
	jobs := make([]client.Item, n)
	for i := range jobs {
		jobs[i].Message = l.next()
	}
	check(t, errOf(c.PushBatch(t.Context(), jobs)))
}

// goesOn waits until this many more jobs have begun.
func (l *limited) goesOn(t *testing.T, more int) {
	t.Helper()
	l.held.mu.Lock()
	more += l.held.all
	l.held.mu.Unlock()
	redistest.Until(t, "jobs of "+l.topic+" are begun", func() bool {
		l.held.mu.Lock()
		defer l.held.mu.Unlock()
		return l.held.all >= more
	})
}

// expectLimited pushes jobs, and checks that no topic exceeds its limit.
func expectLimited(t *testing.T, c *client.Client, when string, topics []*limited) {
	t.Helper()
	for _, l := range topics {
		l.push(t, c, 1000)
		l.goesOn(t, 500)
		l.held.mu.Lock()
		if l.held.most > l.Concurrency {
			t.Errorf("%s: of %s there were %d at a time", when, l.topic, l.held.most)
		}
		t.Logf("%s: of %s %d were begun, %d at a time", when, l.topic, l.held.all, l.held.most)
		l.held.most, l.held.all = 0, 0
		l.held.mu.Unlock()
	}
}

// While the slots of one partition or of all partitions move, consumers never hold more jobs than the limit allows.
// When a master is killed, its replica may not know the last leases. Once these leases would have ended, the limit
// holds again, and no job is stuck.
func TestLimitInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	c := inCluster(t, cluster)
	pool := redistest.Must(client.Connect(client.PoolOptions{Cluster: cluster.Addrs(), Partitions: clusterPartitions}))
	defer pool.Close()
	work := redistest.Must(server.New(pool, server.Options{Logger: slog.New(slog.DiscardHandler)}))
	check(t, work.Check(t.Context()))
	defer redistest.Background(t, work.Run)()

	const lease = 500 * time.Millisecond
	topics := []*limited{
		{topic: "tagged", Limit: client.Limit{Concurrency: 3, Tag: "x"}},
		{topic: "shared", Limit: client.Limit{Concurrency: clusterPartitions}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wait sync.WaitGroup
	defer wait.Wait()
	defer cancel()
	for _, l := range topics {
		l.held.until = map[string]time.Time{}
		check(t, c.SetLimit(ctx, l.topic, l.Limit))
		for range 3 {
			consumer := inCluster(t, cluster)
			for range 12 {
				wait.Go(func() { l.consume(ctx, consumer, lease) })
			}
		}
	}
	slot := cluster.Slot(fmt.Sprintf("{%d}", store.PartitionOf("{x}", clusterPartitions)))
	expect := func(when string) { t.Helper(); expectLimited(t, c, when, topics) }
	expect("in peace")
	for _, to := range otherMasters(cluster, slot) {
		cluster.MoveSlot(slot, to)
		expect("when a slot has moved")
	}
	topics[1].push(t, c, 1000)
	m := cluster.BeginMove(slot, otherMasters(cluster, slot)[0])
	topics[1].goesOn(t, 100)
	m.Keys(3)
	topics[1].goesOn(t, 100)
	m.End()
	expect("when a slot took its time")
	cluster.AwaitHealth()
	old := cluster.Owner(slot)
	cluster.Kill(old)
	cluster.AwaitOwner(slot, old)
	time.Sleep(2 * lease) // the leases that the replica does not know
	for _, l := range topics {
		l.held.mu.Lock()
		l.held.most = 0
		l.held.mu.Unlock()
	}
	expect("when a master was killed")
}
