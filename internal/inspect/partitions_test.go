package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// inPartitions returns an Inspector and a Client of five partitions.
func inPartitions(t *testing.T) *fixture {
	t.Helper()
	f := redistest.Start(t).Fixture
	f.Partitions = 5
	pool := f.Pool()
	c := redistest.Must(client.New(client.UsePool(pool, 5)))
	t.Cleanup(func() { c.Close() })
	return &fixture{Inspector: open(pool, 5), Fixture: f, client: c, ctx: t.Context()}
}

// Pages of several partitions share one order, and each job is on exactly one page.
func TestBrowsePartitions(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	now := time.Now().Truncate(time.Second)
	var waiting, dead []client.Item
	for i := range 300 {
		topic := []string{"t", "u", "u", "u", "u"}[i%5]
		waiting = append(waiting, client.Item{Message: client.Message{ID: fmt.Sprintf("w%03d", i), Topic: topic, Body: "b"}, At: now.Add(time.Hour + time.Duration(i/7)*time.Second)})
		dead = append(dead, client.Item{Message: client.Message{ID: fmt.Sprintf("d%03d", i), Topic: "dead", Body: "b"}})
	}
	_, err := f.client.PushBatch(f.ctx, waiting)
	f.check(err)
	_, err = f.client.PushBatch(f.ctx, dead)
	f.check(err)
	list := clienttest.All(f.TB, f.client, clienttest.Ready("dead", 250, time.Hour))
	_, err = f.client.ExtendBatch(f.ctx, list, time.Minute)
	f.check(err)
	var ofT, all []string
	for i := range 300 {
		id := fmt.Sprintf("w%03d", i)
		if all = append(all, id); i%5 == 0 {
			ofT = append(ofT, id)
		}
	}
	for _, limit := range []int{7, 50, 500} {
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
		f.check(d.Bury(f.ctx, errors.New("why "+d.ID[:2])))
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
	f.expectDeadOfPartitions(list[299].ID)
	var ids []string
	for i := range 250 {
		ids = append(ids, fmt.Sprintf("d%03d", i), fmt.Sprintf("w%03d", i))
	}
	if n, err := f.DropIDs(f.ctx, "t", ids...); n != 0 || err != nil {
		t.Errorf("%d dead letters of another topic were dropped, %v", n, err)
	}
	if n, err := f.DropIDs(f.ctx, "dead", ids...); n != 250 || err != nil {
		t.Errorf("%d dead letters were dropped, %v, want 250", n, err)
	}
}

// expectDeadOfPartitions checks the numbers of 300 dead letters and 300 waiting jobs in five partitions.
func (f *fixture) expectDeadOfPartitions(newest string) {
	f.TB.Helper()
	groups, err := f.DeadGroups(f.ctx, "dead", 1000)
	if err != nil || groups.Looked != 300 || groups.Groups[0].Example != newest {
		f.TB.Errorf("groups: %+v, %v", groups, err)
	}
	if n, err := f.CountDead(f.ctx, DeadFilter{Topic: "dead", Reason: "why d1"}); n != 100 || err != nil {
		f.TB.Errorf("%d dead letters, %v", n, err)
	}

	var sum PartitionCounts
	partitions, err := f.Inspector.Partitions(f.ctx)
	for i, p := range partitions {
		if p.Number != i || p.Mover.ID != "" || p.Waiting == 0 || p.Dead == 0 {
			f.TB.Errorf("partition %d: %+v", i, p)
		}
		sum.Waiting, sum.Dead, sum.Reserved = sum.Waiting+p.Waiting, sum.Dead+p.Dead, sum.Reserved+p.Reserved
	}
	if want := (PartitionCounts{Waiting: 300, Dead: 300}); err != nil || len(partitions) != 5 || sum != want {
		f.TB.Errorf("%d partitions have %+v, %v, want %+v", len(partitions), sum, err, want)
	}
}

// A partition with keys of another type is reported as unreadable. The numbers of the others are complete.
func TestBrokenPartition(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	for i := range 50 {
		f.push("topic", fmt.Sprint("job", i), time.Hour)
	}
	whole := f.counts()
	f.Do("DEL", "delayer:{2}:job_pool")
	f.Do("SET", "delayer:{2}:job_pool", "text")
	f.Do("SET", "delayer:{4}:topics", "text")
	f.expectBroken(whole, "partition 2: WRONGTYPE", 2, 4)
	if late, err := f.Overdue(f.ctx); late.For != 0 || late.Partition != 0 || err != nil || late.Broken == nil || !strings.Contains(late.Broken.Error(), "partition 2: WRONGTYPE") {
		t.Errorf("overdue: %+v, %v", late, err)
	}
	if due, err := f.Forecast(f.ctx, []time.Duration{2 * time.Hour}); err != nil || due.Broken == nil || due.Spans[0].Jobs != f.counts().Waiting+whole.Partitions[4].Waiting {
		t.Errorf("forecast: %+v, %v", due, err)
	}
	if shares, err := f.Shares(f.ctx, 100); err != nil || shares.Broken == nil || shares.Waiting != whole.Waiting-whole.Partitions[2].Waiting {
		t.Errorf("shares: %+v, %v", shares, err)
	}
	f.Do("DEL", "delayer:{4}:topics")
	f.Do("ZADD", "delayer:{4}:job_pool", f.Clock()-100, "late")
	if late, err := f.Overdue(f.ctx); late.Partition != 4 || late.For < 100*time.Second || err != nil || late.Broken == nil {
		t.Errorf("with a late job in partition 4: %+v, %v", late, err)
	}
	for i := range 5 {
		f.text(fmt.Sprintf("{%d}:job_pool", i))
	}
	if _, err := f.Counts(f.ctx); err == nil || !strings.HasPrefix(err.Error(), "count jobs: partitions 0, 1, 2, 3, 4: WRONGTYPE") {
		t.Errorf("where all are broken: %v", err)
	}
}

// onNodes returns an Inspector of 4 partitions on two nodes of a cluster, as far as it sees, and the node with those of that remainder by 2.
func onNodes(t *testing.T, remainder int) (f *fixture, away *redistest.Server) {
	t.Helper()
	f, _ = onRedis(t)
	f.Inspector = open(&redis.Pool{}, 4)
	f.patience = partitionPatience
	for k := range 2 {
		node := redistest.StartNode(t)
		pool := redistest.Must(client.Connect(client.PoolOptions{Cluster: []string{node.Addr}, Partitions: 4}))
		t.Cleanup(func() { pool.Close() })
		on := clienttest.Jobs(pool, "")
		for i := k; i < 4; i += 2 {
			f.fleet.Stores[i] = on.Stores[i]
		}
		if k == remainder {
			away = node
		}
	}
	return f, away
}

// A partition whose node hangs or is gone is reported, too. All unreadable partitions are named together, and each
// read takes a bounded time.
func TestPartitionsOfABrokenNode(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*redistest.Server){"hangs": (*redistest.Server).Hang, "gone": (*redistest.Server).Kill} {
		t.Run(name, func(t *testing.T) {
			if name == "hangs" {
				redistest.Long(t) // each read waits for its time limit
			}
			t.Parallel()
			f, away := onNodes(t, 1)
			for i := range 4 {
				_, err := f.fleet.Stores[i].Push([]store.Delayed{{Job: store.Job{ID: fmt.Sprint(i), Topic: "topic", Body: "b"}, Due: store.Due{After: time.Hour}}}).Do(f.ctx)
				f.check(err)
			}
			whole := f.counts()
			breaks(away)
			f.expectBroken(whole, "partitions 1, 3: ", 1, 3)
			limit := redistest.HangBound
			if name == "hangs" {
				limit = 3 * time.Second
			}
			ctx, cancel := context.WithTimeout(f.ctx, limit)
			defer cancel()
			if late, err := f.Overdue(ctx); err != nil || late.Broken == nil || !strings.HasPrefix(late.Broken.Error(), "partitions 1, 3: ") || ctx.Err() != nil && name == "gone" {
				t.Errorf("overdue: %+v, %v", late, err)
			}
			nodes, err := f.Info(f.ctx)
			if err != nil || len(nodes) != 2 || nodes[0].Missing != "" || nodes[1].Missing == "" {
				t.Errorf("nodes: %+v, %v", nodes, err)
			}
			if known := whole.of("topic"); known.Ready != 0 {
				t.Errorf("%+v", known)
			}
		})
	}
}

// expectBroken checks the numbers of the readable partitions and the reasons for the others.
func (f *fixture) expectBroken(whole Counts, why string, broken ...int) {
	f.TB.Helper()
	got := f.counts()
	waiting := 0
	for i, p := range got.Partitions {
		want := whole.Partitions[i]
		if slices.Contains(broken, i) {
			want = PartitionCounts{Number: i, Node: want.Node, Waiting: Unknown, Ready: Unknown, Reserved: Unknown, Dead: Unknown, Overdue: Unknown, Err: p.Err}
		} else {
			waiting += p.Waiting
		}
		if p != want || (p.Err != nil) != slices.Contains(broken, i) {
			f.TB.Errorf("partition %d: %+v, want %+v", i, p, want)
		}
	}
	if got.Waiting != waiting || got.Pool != waiting || got.Known != 1 || len(got.Topics) != 1 || got.Time.IsZero() {
		f.TB.Errorf("%+v, want %d that wait", got, waiting)
	}
	if err := got.Broken(); err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		f.TB.Errorf("broken: %v, want %s", err, why)
	}
	if counts, known, err := f.Topic(f.ctx, "topic"); !known || err != nil || counts.Broken() == nil {
		f.TB.Errorf("the topic: %v, %v", known, err)
	}
	if _, _, err := f.Topic(f.ctx, "another"); err == nil {
		f.TB.Error("a topic is not known of which only some partitions know nothing")
	}
	if page, err := f.Topics(f.ctx, TopicQuery{}); err != nil || len(page.Topics) != 1 {
		f.TB.Errorf("topics: %+v, %v", page, err)
	}
	if _, err := f.DeadTopics(f.ctx); err != nil {
		f.TB.Errorf("dead topics: %v", err)
	}
	if partitions, err := f.Inspector.Partitions(f.ctx); err != nil || len(partitions) != len(got.Partitions) {
		f.TB.Errorf("partitions: %v", err)
	}
}

// A Snapshot queries an unreachable node once, not once per partition.
func TestSnapshotOfABrokenNode(t *testing.T) {
	t.Parallel()
	f, away := onNodes(t, 0)
	away.Kill()
	s, err := f.snapshot(f.ctx)
	f.check(err)
	why := s.Partitions[0].Err
	if why == nil || s.Partitions[1].Err != nil || !errors.Is(s.ServersErr, why) || !errors.Is(s.AckedErr, why) || s.PausesErr != nil || s.Acked != Unknown {
		t.Errorf("servers: %v; acked: %v; pauses: %v; the partition: %v", s.ServersErr, s.AckedErr, s.PausesErr, why)
	}
}

// A partition whose schedules can't be read is named. The schedules of the others are complete.
func TestSchedulesOfABrokenPartition(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("s%02d", i)
		_, err := f.client.Schedules().Set(f.ctx, client.Schedule{Name: name, Cron: "@daily", Topic: "t", Body: "b"})
		f.check(err)
		if f.Do("EXISTS", "delayer:{2}:job_bucket:{"+name+"}@schedule") == int64(0) {
			want = append(want, name)
		}
	}
	f.text("{2}:schedules")
	all, err := f.Schedules(f.ctx)
	f.check(err)
	var got []string
	for _, s := range all.List {
		got = append(got, s.Name)
	}
	if !slices.Equal(got, want) || !strings.Contains(fmt.Sprint(all.Broken), "partition 2: WRONGTYPE") {
		t.Errorf("there are %v, %v, want %v", got, all.Broken, want)
	}
	for i := range 5 {
		f.text(fmt.Sprintf("{%d}:schedules", i))
	}
	if _, err := f.Schedules(f.ctx); err == nil || !strings.HasPrefix(err.Error(), "read schedules: partitions 0, 1, 2, 3, 4: WRONGTYPE") {
		t.Errorf("where all are broken: %v", err)
	}
}
