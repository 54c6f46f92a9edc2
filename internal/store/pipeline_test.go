package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// pushInPipeline pushes batches with two calls in flight. After an error it sends no further call.
func (b *backend) pushInPipeline(ctx context.Context, batches [][]Delayed) (errs [][]error, err error) {
	p, err := b.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var sent []*Call[[]error]
	for k, jobs := range batches {
		for err == nil && len(sent) < min(k+2, len(batches)) {
			sent = append(sent, b.Push(batches[len(sent)]).Send(p))
			p.Flush()
		}
		errs = append(errs, slices.Repeat([]error{err}, len(jobs)))
		if k < len(sent) {
			each, failed := sent[k].Wait(ctx)
			if err = cmp.Or(err, failed); failed != nil {
				each = slices.Repeat([]error{failed}, len(jobs))
			}
			errs[k] = each
		}
	}
	return errs, err
}

// If Redis has forgotten the script, many calls on one connection still store all jobs, and pops return them in order.
func TestPipelineWithoutScript(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		const jobs, each = 2*MaxPop + 10, 100
		batches := make([][]Delayed, jobs/each+1)
		for n := range jobs {
			batches[n/each] = append(batches[n/each], aJob(fmt.Sprintf("%04d", n), "t", 0))
		}
		b.do(t, "SCRIPT", "FLUSH")
		errs, err := b.pushInPipeline(t.Context(), batches)
		check(t, errors.Join(append(slices.Concat(errs...), err)...))
		b.do(t, "SCRIPT", "FLUSH")
		var popped []string
		for len(popped) < jobs {
			some := made(t, b.Pop(Wanted{Topics: []string{"t"}, N: 2 * jobs}))
			if len(some.Jobs) == 0 || len(some.Jobs) > MaxPop || len(some.Stale) > 0 {
				t.Fatalf("popped %d of %d jobs, then %+v", len(popped), jobs, some)
			}
			for _, job := range some.Jobs {
				popped = append(popped, job.ID)
			}
		}
		if !slices.IsSorted(popped) {
			t.Errorf("popped in the order %q", popped)
		}
		b.expect(t, redistest.State{})
	}, alone)
}

// The text of an unknown script is sent once, however many calls are in flight. Sent with each call, it would take megabytes when jobs of
// many topics are moved.
func TestPipelineSendsTheTextOnce(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	p, err := b.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	now := time.Now()
	for _, when := range []string{"at first", "again"} {
		b.do(t, "SCRIPT", "FLUSH")
		b.do(t, "CONFIG", "RESETSTAT")
		var moving []*Call[Moved]
		for n := range 100 {
			moving = append(moving, b.Move(Batch{Topic: fmt.Sprint(n), IDs: IDs{"a"}}, now, now, now).Send(p))
		}
		dropping := b.Drop(IDs{"a"}, now, now).Send(p)
		for _, answer := range moving {
			check(t, errOf(answer.Wait(t.Context())))
		}
		check(t, errOf(dropping.Wait(t.Context())))
		if n := b.Calls("eval"); n != 2 {
			t.Errorf("%s: %d EVALs, want one for each script", when, n)
		}
	}
}

// After an error no further calls are sent than those in flight, and each batch gets its own result.
func TestPipelineEndsWithAnError(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	var batches [][]Delayed
	for _, id := range []string{"a", "forbidden", "b", "c", "d"} {
		batches = append(batches, []Delayed{aJob(id, "t", time.Hour)})
	}
	b.do(t, "ACL", "SETUSER", "default", "resetkeys", "~delayer:job_pool", "~delayer:job_bucket:[a-d]")
	p, err := b.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	errs, err := b.pushInPipeline(t.Context(), batches)
	if !Refused(err) {
		t.Errorf("error %v, want NOPERM", err)
	}
	for i, stored := range []bool{true, false, true, false, false} {
		if (errs[i][0] == nil) != stored {
			t.Errorf("batch %d: %v, stored: %v", i, errs[i], stored)
		}
	}
	b.do(t, "ACL", "SETUSER", "default", "allkeys")
	b.expect(t, redistest.State{Pool: []string{"a", "b"}, Buckets: map[string]string{"a": "t b", "b": "t b"}})
}

// If a master has become a replica, the pipeline moves to the new master with all refused calls and drops the old connection. Without a
// new master the call returns the error.
func TestPipelineLeavesADemotedServer(t *testing.T) {
	t.Parallel()
	_, oldMaster := onRedis(t, alone)
	b, newMaster := onRedis(t, alone)
	proxy := redistest.StartProxy(t, oldMaster.Addr)
	pool := &redis.Pool{MaxIdle: 10, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", proxy.Addr) }}
	t.Cleanup(func() { pool.Close() })
	moving := &backend{Store: New(pool, DefaultPrefix)}
	push := func(ids ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var batches [][]Delayed
		for _, id := range ids {
			batches = append(batches, []Delayed{aJob(id, "t", time.Hour)})
		}
		_, err := moving.pushInPipeline(ctx, batches)
		return err
	}
	check(t, push("before"))

	host, port, _ := net.SplitHostPort(newMaster.Addr)
	oldMaster.Do("REPLICAOF", host, port)
	proxy.Lead(newMaster.Addr)
	check(t, push("a", "b", "c", "d"))
	if n := pool.ActiveCount(); n != 0 {
		t.Errorf("%d connections are kept, want none", n)
	}
	got := b.state(t).Pool
	slices.Sort(got)
	if want := []string{"a", "b", "c", "d"}; !slices.Equal(got, want) {
		t.Errorf("in the pool of the new master: %q, want %q", got, want)
	}

	proxy.Lead(oldMaster.Addr)
	if err := push("e"); !begins(err, "READONLY") {
		t.Errorf("with no master: %v, want READONLY", err)
	}
}

// If there is no other server, the calls that a demoted master refused return NotNow and change nothing. Replaced is set.
func TestPipelineFindsNoOtherServer(t *testing.T) {
	t.Parallel()
	_, server := onRedis(t, alone)
	nobody := errors.New("nobody is there")
	dialled := false
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		if dialled {
			return nil, nobody
		}
		dialled = true
		return redis.Dial("tcp", server.Addr)
	}}
	t.Cleanup(func() { pool.Close() })
	server.Do("REPLICAOF", "127.0.0.1", "1")
	store := New(pool, DefaultPrefix)
	p, err := store.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	pops := []*Call[Popped]{store.Pop(Wanted{Topics: []string{"a"}, N: 1}).Send(p), store.Pop(Wanted{Topics: []string{"b"}, N: 1}).Send(p)}
	for _, pop := range pops {
		if _, err := pop.Wait(t.Context()); KindOf(err) != NotNow || !begins(err, "READONLY") || !errors.Is(err, nobody) {
			t.Errorf("error %v, want READONLY and why there is no other server", err)
		}
	}
	if !p.Replaced {
		t.Error("it is not told that a server was left")
	}
}

// While the only server takes no writes, its connections stay: a new one is tried every 100 ms.
func TestPipelineKeepsAServerWithoutAnother(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	server.Do("REPLICAOF", "127.0.0.1", "1")
	renewed := 0
	b.OnReplaced(func() { renewed++ })
	before, began := server.InfoNumber("stats", "total_connections_received"), time.Now()
	for range 500 {
		if _, err := b.Store.Pop(Wanted{Topics: []string{"a"}, N: 1}).Do(t.Context()); !begins(err, "READONLY") {
			t.Fatalf("error %v, want READONLY", err)
		}
	}
	most := 5 + 2*int(time.Since(began)/(100*time.Millisecond))
	if n := server.InfoNumber("stats", "total_connections_received") - before; n > most || renewed > 0 {
		t.Errorf("%d connections were opened, and the listener was renewed %d times", n, renewed)
	}
	server.Do("REPLICAOF", "NO", "ONE")
	if _, err := b.Store.Pop(Wanted{Topics: []string{"a"}, N: 1}).Do(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many concurrent calls each get their own answer, even if Redis has forgotten the script or refuses some calls.
func TestSettle(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const topics = 2 * manyCalls
		var seed [][]command
		for n := range topics {
			seed = append(seed, waits(fmt.Sprint("a", n), fmt.Sprint("t", n), -2*second), waits(fmt.Sprint("b", n), fmt.Sprint("t", n), -second))
		}
		b.seed(t, seed...)
		b.do(t, "SET", "delayer:ready_queue:t3", "no list")
		b.do(t, "SCRIPT", "FLUSH")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, id := range []string{"a", "b"} {
			p, err := b.Pipeline(ctx)
			check(t, err)
			var answers []*Call[Moved]
			for n := range topics {
				answers = append(answers, b.Move(batch(fmt.Sprint("t", n), fmt.Sprint(id, n)), time.Now(), time.Now(), time.Now()).Send(p))
			}
			finding := b.Store.Due(Query{Limit: 1}).Send(p)
			p.ReceiveAll(ctx)
			for n, answer := range answers {
				got, err := answer.Wait(ctx)
				if moved := n != 3; err != nil || got.Topic != fmt.Sprint("t", n) || (len(got.IDs) == 1) != moved || (got.PutBack == 1) == moved {
					t.Errorf("%s%d: %+v, %v", id, n, got, err)
				}
			}
			check(t, errOf(finding.Wait(ctx)))
			p.Close()
		}
	}, alone)
}

// The end of the context ends the wait.
func TestSettleEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Hang()
	defer server.Continue()
	b := newBackend(server.Fixture, server.Pool())
	p, err := b.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var answers []*Call[Moved]
	for range 2 * manyCalls {
		answers = append(answers, b.Move(batch("t", "a"), time.Now(), time.Now(), time.Now()).Send(p))
	}
	p.ReceiveAll(ctx)
	for _, answer := range answers {
		if _, err := answer.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}
