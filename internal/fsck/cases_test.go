package fsck

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
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

// found returns the number of faults left, by kind.
func found(r Report) map[string]int {
	left := map[string]int{}
	for _, f := range r.Findings {
		left[f.Kind] = f.Left
	}
	return left
}

func (f *fixture) expectLeft(r Report, want map[string]int) {
	f.t.Helper()
	if got := found(r); !maps.Equal(got, want) {
		f.t.Errorf("left: %v, want %v", got, want)
	}
}

// Jobs that are waiting, ready, reserved, dead, paused, limited, scheduled, grouped or deduplicated are no fault.
func TestNothingWrong(t *testing.T) {
	f := newFixture(t)
	push := func(id, topic string, delay time.Duration, opts ...client.PushOption) {
		t.Helper()
		_, err := f.client.Push(f.ctx, client.Message{ID: id, Topic: topic, Body: "1"}, delay, opts...)
		redistest.Check(t, err)
	}
	redistest.Check(t, f.client.SetLimit(f.ctx, "limited", client.Limit{Concurrency: 5}))
	for i := range 300 {
		push(fmt.Sprint("w", i), "t", time.Hour)
		push(fmt.Sprint("r", i), "t", 0)
		push(fmt.Sprint("p", i), "paused", 0)
		push(fmt.Sprint("l", i), "limited", 0)
		push(fmt.Sprint("d", i), "dead", 0)
	}
	push("once", "t", time.Hour, client.IfExists(client.OnceAs(time.Hour, "x")))
	push("", "grouped", 0, client.Group{Key: "k", Quiet: time.Hour})
	redistest.Check(t, f.client.Pause(f.ctx, "paused", client.PauseOptions{}))
	_, err := f.client.Schedules().Set(f.ctx, client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "b"})
	redistest.Check(t, err)
	for i := range 5 {
		for _, topic := range []string{"t", "limited", "dead"} {
			d, err := f.client.Reserve(f.ctx, time.Hour, topic)
			redistest.Check(t, err)
			if topic == "dead" && i < 3 {
				redistest.Check(t, d.Bury(f.ctx, errors.New("bad")))
			}
		}
	}
	before := f.State()
	if r := f.run(Options{Repair: true}); len(r.Findings) > 0 {
		t.Errorf("%+v", r)
	}
	f.Expect(before)
}

// The ways to handle lost jobs. A job that changes in the meantime is not lost.
func TestLost(t *testing.T) {
	for _, do := range []string{store.LostRequeue, store.LostDrop, List} {
		f := newFixture(t)
		for i := range 20 {
			f.job(fmt.Sprint("lost", i), "t")
		}
		f.job("pushed", "t")
		f.job("taken", "t")
		f.flush()
		time.AfterFunc(100*time.Millisecond, func() {
			f.client.Push(f.ctx, client.Message{ID: "pushed", Topic: "t", Body: "b"}, 0)
			conn := f.pool.Get()
			defer conn.Close()
			conn.Do("DEL", "delayer:job_bucket:taken")
		})
		r := f.run(Options{Repair: true, Lost: do, Wait: 500 * time.Millisecond})
		if len(r.Findings) != 1 || r.Findings[0].Kind != "lost_job" || r.Findings[0].Found != 20 || r.Findings[0].Repaired != map[bool]int{true: 0, false: 20}[do == List] {
			t.Fatalf("%s: %+v", do, r)
		}
		if n := len(f.Queue("t")); n != map[string]int{store.LostRequeue: 21, store.LostDrop: 1, List: 1}[do] {
			t.Errorf("%s: %d are ready", do, n)
		}
		if n := len(r.Findings[0].Examples); do == List && n != 20 {
			t.Errorf("it lists %d", n)
		}
	}
}

// Keys that are not Delayer's stay. Keys of another Delayer whose prefix begins with ours are not reported.
func TestForeignKeys(t *testing.T) {
	f := newFixture(t)
	f.put("SET", "what", "is this")
	f.put("HSET", "staging:job_bucket:1", "topic", "t")
	f.put("ZADD", "staging:job_pool", 1, "1")
	f.put("ZADD", "{3}:job_pool", 1, "1")
	f.flush()
	f.expectLeft(f.run(Options{Repair: true}), map[string]int{"unknown_key": 1, "other_layout": 1})
}

// Keys of another installation whose prefix begins with ours are not reported, whichever they are, with partitions or without.
func TestAnotherInstallation(t *testing.T) {
	f := newFixture(t)
	create := map[string][]any{"hash": {"HSET", "f", "1"}, "zset": {"ZADD", 1, "m"}, "list": {"LPUSH", "e"}, "string": {"SET", "1"}}
	for _, prefix := range []string{"b:", "b:{3}:"} {
		for _, key := range store.KeyTable {
			if command := create[key.Type]; command != nil {
				f.put(command[0].(string), prefix+key.Name+key.Kind, command[1:]...)
			}
		}
	}
	f.flush()
	f.expectLeft(f.run(Options{}), map[string]int{})
}

// Jobs in a partition that is not theirs are found, also in a Cluster, and stay.
func TestWrongPartition(t *testing.T) {
	t.Run("partitions", func(t *testing.T) {
		server := redistest.Start(t)
		wrongPartition(t, server.Do, client.PoolOptions{Addr: server.Addr})
	})
	t.Run("cluster", func(t *testing.T) {
		redistest.Long(t)
		cluster := redistest.StartCluster(t)
		wrongPartition(t, func(command string, args ...any) any {
			return cluster.Owner(cluster.Slot(args[0].(string))).Do(command, args...)
		}, client.PoolOptions{Cluster: cluster.Addrs()})
	})
}

func wrongPartition(t *testing.T, do func(command string, args ...any) any, o client.PoolOptions) {
	const n = 8
	o.Partitions = n
	r := redistest.Must(client.Connect(o))
	c := redistest.Must(client.New(r))
	t.Cleanup(func() { c.Close(); r.Close() })
	_, err := c.Push(t.Context(), client.Message{ID: "sound", Topic: "t", Body: "b"}, time.Hour)
	redistest.Check(t, err)
	wrong := 0
	for i := range 200 {
		id, here := fmt.Sprint("job", i), i%n
		if store.PartitionOf(id, n) != here {
			wrong++
		}
		prefix := fmt.Sprintf("delayer:{%d}:", here)
		do("HSET", prefix+"job_bucket:"+id, "topic", "t", "body", "b")
		switch i / n % 3 {
		case 0:
			do("ZADD", prefix+"job_pool", future, id)
		case 1:
			do("LPUSH", prefix+"ready_queue:t", id)
			do("ZADD", prefix+"topics", 9e9, "t")
		case 2:
			do("RENAME", prefix+"job_bucket:"+id, prefix+"dead_letter:"+id)
			do("ZADD", prefix+"dead_letters:t", 1, id)
			do("ZADD", prefix+"dead_topics", 1, "t")
		}
	}
	do("HSET", "delayer:{0}:job_bucket:lost", "topic", "t", "body", "b")
	run := func(repair bool) map[string]int {
		report, err := New(clienttest.Jobs(r, ""), Options{Repair: repair, Wait: 100 * time.Millisecond}).Run(t.Context())
		redistest.Check(t, err)
		return found(report)
	}
	if got, want := run(false), (map[string]int{"wrong_partition": wrong, "lost_job": 1}); !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if store.PartitionOf("lost", n) == 0 {
		t.Fatal("the lost job belongs where it is")
	}
	if got := run(true); got["wrong_partition"] != wrong+1 { // with the lost job, which is ready now
		t.Errorf("left %v", got)
	}
	jobs := int64(0)
	for i := range n {
		prefix := fmt.Sprintf("delayer:{%d}:", i)
		jobs += do("ZCARD", prefix+"job_pool").(int64) + do("LLEN", prefix+"ready_queue:t").(int64) + do("ZCARD", prefix+"dead_letters:t").(int64)
	}
	if jobs != 202 {
		t.Errorf("%d jobs, want 202", jobs)
	}
}

// Without Repair a user with read permissions finds everything and writes nothing.
func TestReadOnly(t *testing.T) {
	server := redistest.Start(t)
	f := server.Fixture
	f.Do("HSET", "delayer:job_bucket:lost", "topic", "t", "body", "b")
	f.Do("LPUSH", "delayer:ready_queue:t", "ghost")
	f.Do("ZADD", "delayer:job_pool", future, "orphan")
	f.Do("HSET", "delayer:reserved", "t", 3)
	f.Do("ZADD", "delayer:dead_topics", 1, "none")
	f.Do("LPUSH", "delayer:paused_queue:u", "x")
	before := dump(f)
	f.SetUser(redistest.Rights(t, "checker"))
	report, err := New(jobsIn(f.UserPool()), Options{Wait: 10 * time.Millisecond}).Run(t.Context())
	redistest.Check(t, err)
	want := map[string]int{"lost_job": 1, "reserved_count": 1, "parked_without_pause": 1, "unknown_topic": 1}
	if got := found(report); !maps.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if after := dump(f); !reflect.DeepEqual(before, after) {
		t.Errorf("%v, want %v", after, before)
	}
	f.SetUser(redistest.Rights(t, "repairer"))
	report, err = New(jobsIn(f.UserPool()), Options{Repair: true, Wait: 10 * time.Millisecond}).Run(t.Context())
	if redistest.Check(t, err); report.Left != 0 {
		t.Errorf("%+v", report)
	}
	if denied := f.Do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("Redis has refused %q", denied)
	}
}

// dump returns the content of every key.
func dump(f *redistest.Fixture) map[string]string {
	all := map[string]string{}
	for _, key := range f.Strings("KEYS", "*") {
		text, _ := redis.String(f.Do("DUMP", key), nil)
		all[key] = text
	}
	return all
}

// Steps keep Redis busy for at most 2 ms, however many jobs there are. The test requires that of half of the steps only, because
// the machine may be busy.
func TestStallBudget(t *testing.T) {
	redistest.Long(t)
	server := redistest.Start(t)
	f := &fixture{Fixture: server.Fixture, t: t, ctx: t.Context(), conn: server.Conn(), pool: server.Pool()}
	for i := range 20000 {
		id := strings.Repeat("x", 30) + fmt.Sprint(i)
		f.job(id, "t")
		f.put("LPUSH", "ready_queue:t", id)
		f.job("w"+id, "t")
		f.put("ZADD", "job_pool", future, "w"+id)
		if i%100 == 0 {
			f.put("LPUSH", "ready_queue:t", id)
			f.put("LPUSH", "ready_queue:t", "ghost"+id)
			f.job("lost"+id, "t")
		}
	}
	f.put("ZADD", "topics", 9e9, "t")
	f.flush()
	f.Do("CONFIG", "SET", "slowlog-log-slower-than", 0, "slowlog-max-len", 100000)
	f.run(Options{Repair: true})
	var took []int64
	for _, entry := range f.Do("SLOWLOG", "GET", -1).([]any) {
		e := entry.([]any)
		if args, _ := redis.Strings(e[3], nil); args[0] == "EVALSHA" || args[0] == "SCAN" {
			took = append(took, e[2].(int64))
		}
	}
	slices.Sort(took)
	if n := len(took); n < 100 || took[n/2] > 2000 {
		t.Errorf("half of %d steps took more than %d µs: want 2000", n, took[n/2])
	}
}
