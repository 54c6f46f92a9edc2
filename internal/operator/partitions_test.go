package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
)

// inPartitions is an Operator, and a Client, of five partitions.
func inPartitions(t *testing.T) *fixture {
	t.Helper()
	f := redistest.Start(t).Fixture
	f.Partitions = 5
	pool := client.NewPool(client.PoolOptions{Addr: f.Addr})
	c := client.New(pool, client.WithPartitions(5))
	t.Cleanup(func() {
		c.Close()
		pool.Close()
	})
	return &fixture{Operator: New(pool, "", 5), Fixture: f, client: c, ctx: t.Context()}
}

// Pages of several partitions are in one order, and each job is on one of them.
func TestBrowsePartitions(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	now := time.Now().Truncate(time.Second)
	var waiting, dead []client.Delayed
	for i := range 300 {
		topic := []string{"t", "u", "u", "u", "u"}[i%5]
		waiting = append(waiting, client.Delayed{Message: client.Message{ID: fmt.Sprintf("w%03d", i), Topic: topic, Body: "b"}, At: now.Add(time.Hour + time.Duration(i/7)*time.Second)})
		dead = append(dead, client.Delayed{Message: client.Message{ID: fmt.Sprintf("d%03d", i), Topic: "dead", Body: "b"}})
	}
	_, err := f.client.PushBatch(f.ctx, waiting)
	f.check(err)
	_, err = f.client.PushBatch(f.ctx, dead)
	f.check(err)
	list, err := f.client.ReserveBatch(f.ctx, "dead", 300, time.Hour)
	f.check(err)
	_, err = f.client.ExtendBatch(f.ctx, list, time.Minute)
	f.check(err)
	var ofT, all []string
	for i := range 300 {
		id := fmt.Sprintf("w%03d", i)
		if all = append(all, id); i%5 == 0 {
			ofT = append(ofT, id)
		}
	}
	for _, limit := range []int{1, 7, 50, 500} {
		if got := f.ids(Query{State: Waiting, Limit: limit}, nil); !slices.Equal(got, all) {
			t.Errorf("waiting jobs by %d: %q", limit, got)
		}
		if got := f.ids(Query{State: Waiting, Topic: "t", Limit: limit}, nil); !slices.Equal(got, ofT) {
			t.Errorf("waiting jobs of t by %d: %q", limit, got)
		}
		if got := f.ids(Query{State: Reserved, Limit: limit}, nil); len(got) != 300 {
			t.Errorf("%d reserved jobs by %d", len(got), limit)
		}
	}
	for _, d := range list {
		f.check(d.Bury(f.ctx, "why "+d.ID[:2]))
	}
	for _, limit := range []int{3, 50, 500} {
		got := f.ids(Query{State: Dead, Topic: "dead", Limit: limit}, nil)
		want := make([]string, len(list))
		for i, d := range list {
			want[len(list)-1-i] = d.ID
		}
		if len(got) != 300 || strings.Join(got[:5], " ") != strings.Join(want[:5], " ") && got[0] != want[0] {
			t.Errorf("%d dead letters by %d begin with %q, want %q", len(got), limit, got[:5], want[:5])
		}
	}
	groups, err := f.DeadGroups(f.ctx, "dead", 1000)
	if err != nil || groups.Looked != 300 || groups.Groups[0].Example != list[299].ID {
		t.Errorf("groups: %+v, %v", groups, err)
	}
	if n, err := f.CountDead(f.ctx, DeadFilter{Topic: "dead", Reason: "why d1"}); n != 100 || err != nil {
		t.Errorf("%d dead letters, %v", n, err)
	}

	var sum PartitionCounts
	partitions, err := f.Operator.Partitions(f.ctx)
	for i, p := range partitions {
		if p.Number != i || p.Mover.ID != "" || p.Waiting == 0 || p.Dead == 0 {
			t.Errorf("partition %d: %+v", i, p)
		}
		sum.Waiting, sum.Dead, sum.Reserved = sum.Waiting+p.Waiting, sum.Dead+p.Dead, sum.Reserved+p.Reserved
	}
	if want := (PartitionCounts{Waiting: 300, Dead: 300}); err != nil || len(partitions) != 5 || sum != want {
		t.Errorf("%d partitions have %+v, %v, want %+v", len(partitions), sum, err, want)
	}
}
