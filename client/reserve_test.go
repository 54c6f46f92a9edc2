package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
)

// reservation is what a Reserve in the background came back with.
type reservation struct {
	d   *client.Delivery
	err error
}

func reserve(d *client.Delivery, err error) reservation { return reservation{d, err} }

// reserveLater starts a Reserve in the background.
func reserveLater(call func() (*client.Delivery, error)) <-chan reservation {
	reserved := make(chan reservation, 1)
	go func() { reserved <- reserve(call()) }()
	return reserved
}

// expect checks that the job was reserved.
func (r reservation) expect(t testing.TB, id string) *client.Delivery {
	t.Helper()
	if r.err != nil || r.d.ID != id {
		t.Fatalf("reserved %+v, error %v, want job %q", r.d, r.err, id)
	}
	return r.d
}

// fetch is Client.Fetch, or does the same.
type fetch func(c *client.Client, ctx context.Context, o client.FetchOptions) ([]*client.Delivery, error)

// fetchFunc waits for what FetchFunc is called back with.
func fetchFunc(c *client.Client, ctx context.Context, o client.FetchOptions) (list []*client.Delivery, err error) {
	called := make(chan bool)
	c.FetchFunc(ctx, o, func(l []*client.Delivery, e error) {
		list, err = l, e
		close(called) // panics at a second call
	})
	<-called
	return list, err
}

// eachFetch runs the test with Fetch, and with FetchFunc.
func eachFetch(t *testing.T, test func(t *testing.T, fetch fetch)) {
	t.Run("Fetch", func(t *testing.T) { test(t, (*client.Client).Fetch) })
	t.Run("FetchFunc", func(t *testing.T) { test(t, fetchFunc) })
}

// arrival waits for what comes out of the channel.
func arrival[T any](t testing.TB, from <-chan T) T { t.Helper(); return redistest.Receive(t, from) }

// reserversWait waits until so many calls of the Client wait to reserve a job of the topic,
// which they hear of.
func (f *fixture) reserversWait(c *client.Client, topic string, callers int) {
	f.t.Helper()
	until(f.t, fmt.Sprint(callers, " callers wait to reserve of ", topic), func() bool {
		_, waiting := client.Reservers(c, topic)
		return waiting == callers && f.waiters(topic) > 0
	})
}

// reserving starts a Reserve without a timeout and waits until it waits in Redis.
func (f *fixture) reserving(ctx context.Context, lease time.Duration, topic string) <-chan reservation {
	f.t.Helper()
	_, before := client.Reservers(f.Client, topic)
	reserved := reserveLater(func() (*client.Delivery, error) { return f.Reserve(ctx, 0, lease, topic) })
	f.reserversWait(f.Client, topic, before+1)
	return reserved
}

// deliveryIDs are the IDs of the reserved jobs.
func deliveryIDs(list []*client.Delivery) []string {
	ids := make([]string, len(list))
	for i, d := range list {
		ids[i] = d.ID
	}
	return ids
}

// A push and a server's move end the wait, and the job stays in Redis.
func TestReserveWakes(t *testing.T) {
	f := start(t)
	reserved := f.reserving(t.Context(), time.Minute, "t")
	f.expect(state{})
	f.push("a", "t")
	d := arrival(t, reserved).expect(t, "a")
	if d.Message != (client.Message{ID: "a", Topic: "t", Body: "body"}) || d.Attempt != 1 || d.MaxAttempts != 0 || d.Lease() != time.Minute {
		t.Errorf("reserved %+v for %v", d, d.Lease())
	}
	held := state{Reserved: []string{"a"}, Counts: map[string]string{"t": "1"}, Buckets: buckets{"a": "t body"}}
	f.expect(held)
	if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	f.expect(state{})

	f.serve()
	reserved = f.reserving(t.Context(), time.Minute, "t")
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 50*time.Millisecond)
	check(t, err)
	arrival(t, reserved).expect(t, "a")
	f.expect(held)
}

// Of several topics the first that has a job is served, and any of them ends a wait.
func TestReserveOfSeveralTopics(t *testing.T) {
	f := start(t)
	for _, topic := range []string{"t", "u", "v"} {
		f.push("at once, "+topic, topic)
	}
	for _, want := range []string{"v", "t", "u"} {
		d, err := f.Reserve(t.Context(), hangBound, time.Minute, "v", "t", "u")
		if reserve(d, err).expect(t, "at once, "+want); d.Topic != want {
			t.Errorf("job of topic %s, want %s", d.Topic, want)
		}
	}
	for _, topic := range []string{"t", "u", "v"} {
		reserved := reserveLater(func() (*client.Delivery, error) { return f.Reserve(t.Context(), 0, time.Minute, "t", "u", "v", "u") })
		for _, other := range []string{"t", "u", "v"} {
			f.reserversWait(f.Client, other, 1)
		}
		f.push(topic, topic)
		arrival(t, reserved).expect(t, topic)
	}
}

func TestReserveEndsWithoutAJob(t *testing.T) {
	f := start(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name    string
		ctx     context.Context
		timeout time.Duration
		want    error
	}{
		{"timeout", t.Context(), 200 * time.Millisecond, client.ErrEmpty},
		{"deadline", deadline(t, 50*time.Millisecond), 0, context.DeadlineExceeded},
		{"deadline before the timeout", deadline(t, 50*time.Millisecond), time.Hour, context.DeadlineExceeded},
		{"cancelled before", cancelled, 0, context.Canceled},
	} {
		r := arrival(t, reserveLater(func() (*client.Delivery, error) { return f.Reserve(c.ctx, c.timeout, 0, "t", "u") }))
		if !errors.Is(r.err, c.want) || r.d != nil {
			t.Errorf("%s: %+v, %v, want %v", c.name, r.d, r.err, c.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	reserved := f.reserving(ctx, 0, "t")
	f.redis.Hang() // a cancelled wait asks Redis nothing
	defer f.redis.Resume()
	cancel()
	if r := arrival(t, reserved); !errors.Is(r.err, context.Canceled) {
		t.Errorf("cancelled: %v", r.err)
	}
}

// A call that is cancelled while its script is under way gets what that brings.
func TestCancelledReserveGetsItsJob(t *testing.T) {
	f := start(t)
	one := func(list []*client.Delivery, err error) (*client.Delivery, error) { return append(list, nil)[0], err }
	for name, call := range map[string]func(ctx context.Context, c *client.Client) (*client.Delivery, error){
		"Reserve": func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
			return c.Reserve(ctx, 0, time.Minute, "t")
		},
		"Reserve of several": func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
			return c.Reserve(ctx, 0, time.Minute, "u", "t")
		},
		"Reserve with timeout": func(_ context.Context, c *client.Client) (*client.Delivery, error) {
			return c.Reserve(t.Context(), 10*time.Millisecond, time.Minute, "t")
		},
		"ReserveBatch": func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
			return one(c.ReserveBatch(ctx, "t", 1, time.Minute))
		},
		"Fetch": func(ctx context.Context, c *client.Client) (*client.Delivery, error) {
			return one(c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "u"}, {Topic: "t"}}, Max: 1, Lease: time.Minute}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed(all(ready("a", "t"), ready("b", "t"))...)
			sent := make(chan struct{}, 100)
			c := client.New(tappedPool(f.redis.Addr, sent))
			defer c.Close()
			c.ReserveBatch(t.Context(), "other", 1, 0) // dials, and loads the script
			drain(sent)
			f.redis.Hang()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			reserved := reserveLater(func() (*client.Delivery, error) { return call(ctx, c) })
			<-sent
			cancel()
			time.Sleep(20 * time.Millisecond) // what ends would have ended by now
			select {
			case r := <-reserved:
				t.Errorf("returned %+v before the answer", r)
			default:
			}
			f.redis.Resume()
			arrival(t, reserved).expect(t, "a")
			f.expect(state{Reserved: []string{"a"}, Counts: map[string]string{"t": "1"}, Ready: queues{"t": {"b"}}, Buckets: buckets{"a": "t old", "b": "t old"}})
		})
	}
}

// Cancelling races with pushing: every job is either reserved for a caller, or still ready.
func TestReserveCancelLosesNothing(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		const rounds, workers = 600, 4
		f := start(t)
		var got tally
		var workersDone sync.WaitGroup
		for worker := range workers {
			workersDone.Go(func() {
				for round := worker; round < rounds; round += workers {
					id := fmt.Sprint("job", round) // and topic
					ctx, cancel := context.WithCancel(context.Background())
					reserved := reserveLater(func() (*client.Delivery, error) {
						list, err := fetch(f.Client, ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: id}}, Max: 1, Lease: time.Hour})
						return slices.Concat(list, []*client.Delivery{nil})[0], err
					})
					for all := 0; all == 0; all, _ = client.Reservers(f.Client, id) {
						runtime.Gosched()
					}
					time.AfterFunc(time.Duration(round)*time.Microsecond, cancel)
					f.push(id, id)
					switch r := arrival(t, reserved); {
					case r.err == nil:
						got.add(r.d.ID)
					case !errors.Is(r.err, context.Canceled):
						t.Error(r.err)
					}
					cancel()
				}
			})
		}
		workersDone.Wait()
		left := f.state()
		for round := range rounds {
			id := fmt.Sprint("job", round)
			if held := slices.Contains(left.Reserved, id); got.count(id)+len(left.Ready[id]) != 1 || held != (got.count(id) == 1) {
				t.Errorf("%s: delivered %d times, reserved: %v, ready: %q", id, got.count(id), held, left.Ready[id])
			}
		}
		if got.total() == 0 || len(left.Ready) == 0 {
			t.Error("the race was always won by the same side: this proves nothing")
		}
	})
}

func TestReserveSurvivesRestartAndCutConnections(t *testing.T) {
	f := start(t)
	reserved := f.reserving(t.Context(), time.Minute, "t")
	for range 2 {
		f.killConnections()
		f.do("CLIENT", "KILL", "TYPE", "pubsub")
		until(t, "it listens again", func() bool { return f.waiters("t") == 1 })
	}
	f.redis.Kill()
	f.redis.Restart()
	until(t, "it listens again", func() bool { return f.waiters("t") == 1 })
	f.pushAnew("a", "t")
	arrival(t, reserved).expect(t, "a")
}

// Redis away for longer is an error.
func TestReserveGivesUpOnOutage(t *testing.T) {
	t.Parallel()
	f := start(t)
	reserved := f.reserving(t.Context(), time.Minute, "t")
	f.redis.Kill()
	if r := arrival(t, reserved); r.err == nil || errors.Is(r.err, client.ErrLost) || errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("error %v, want the network's", r.err)
	}
}

// However callers of one Client take jobs, of one topic, and for how long: all are served.
func TestPopAndReserveShareATopic(t *testing.T) {
	const rounds = 20
	f := start(t)
	takers := []func() (string, error){
		func() (string, error) { m, err := f.BPop(t.Context(), 0, "t"); return m.ID, err },
		func() (string, error) { m, err := f.BPop(t.Context(), 0, "other", "t"); return m.ID, err },
	}
	for _, lease := range []time.Duration{0, time.Minute, time.Hour} {
		for _, topics := range [][]string{{"t"}, {"other", "t"}} {
			takers = append(takers, func() (string, error) {
				d, err := f.Reserve(t.Context(), 0, lease, topics[0], topics[1:]...)
				if err != nil {
					return "", err
				}
				return d.ID, nil
			})
		}
	}
	takers = append(takers, func() (string, error) {
		list, err := f.Fetch(t.Context(), client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1})
		return append(deliveryIDs(list), "")[0], err
	})
	type taken struct {
		id  string
		err error
	}
	results := make(chan taken, rounds*len(takers))
	for range rounds {
		for _, take := range takers {
			go func() {
				id, err := take()
				results <- taken{id, err}
			}()
		}
	}
	for n := range rounds * len(takers) {
		f.push(fmt.Sprint(n), "t")
	}
	seen := map[string]bool{}
	for range rounds * len(takers) {
		got := arrival(t, results)
		if got.err != nil || seen[got.id] {
			t.Fatalf("got %q, %v: twice?", got.id, got.err)
		}
		seen[got.id] = true
	}
	if left := f.state(); len(left.Ready) > 0 || len(left.Reserved) != 7*rounds {
		t.Errorf("%d are reserved, want %d; ready %q", len(left.Reserved), 7*rounds, left.Ready)
	}
}

// Waits that are over leave nothing, of whatever kind they were.
func TestReservesLeaveNothing(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		t.Parallel()
		f := start(t)
		for n := range 20 {
			if _, err := fetch(f.Client, t.Context(), client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1, Timeout: time.Millisecond, Lease: time.Duration(n) * time.Second}); err == nil {
				t.Error("a job out of nothing")
			}
		}
		until(t, "nobody listens", func() bool { return f.waiters("t") == 0 })
		until(t, "the topic is forgotten", func() bool { return client.Queues(f.Client) == 0 })
	})
}

// What an old server moves, or what may not be listened to, is found by looking.
func TestReserveHearsNothing(t *testing.T) {
	f := start(t)
	f.do("ACL", "SETUSER", "deaf", "on", ">p", "~delayer:*", "+@all", "-@dangerous")
	var log lockedLog
	deaf := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: "deaf", Password: "p"}, client.WithLogger(log.logger()))
	defer deaf.Close()
	for name, c := range map[string]*client.Client{"an old server": f.Client, "no channels": deaf} {
		reserved := reserveLater(func() (*client.Delivery, error) { return c.Reserve(t.Context(), 0, time.Minute, "t") })
		until(t, "it waits", func() bool { _, waiting := client.Reservers(c, "t"); return waiting == 1 })
		f.do("HSET", "delayer:job_bucket:"+name, "topic", "t", "body", "b")
		f.do("LPUSH", "delayer:ready_queue:t", name)
		arrival(t, reserved).expect(t, name)
	}
	if lines := log.lines(); len(lines) != 1 || !strings.Contains(lines[0], "&delayer:wake:* +subscribe") {
		t.Errorf("said %q, want one line with the ACL words", lines)
	}
}

// An answer that is lost is no lost job: the Reserve goes on, and the job comes back when the
// lease ends that nobody knows of. That was an attempt.
func TestLostAnswerOfReserve(t *testing.T) {
	f := start(t)
	f.ReserveBatch(t.Context(), "t", 1, 0) // loads the script
	h := f.hold("t")
	c := client.New(h.Pool)
	defer c.Close()
	reserved := reserveLater(func() (*client.Delivery, error) { return c.Reserve(t.Context(), 0, 50*time.Millisecond, "t") })
	<-h.sent
	h.pass <- nil
	f.reserversWait(c, "t", 1)
	f.push("a", "t")
	<-h.sent
	h.pass <- io.ErrUnexpectedEOF
	f.serve()
	ended := make(chan struct{})
	go func() { // the answers to come are let through
		for {
			select {
			case h.pass <- nil:
			case <-ended:
				return
			}
		}
	}()
	d := arrival(t, reserved).expect(t, "a")
	close(ended)
	if d.Attempt != 2 {
		t.Errorf("attempt %d, want 2", d.Attempt)
	}
	if n := c.Counters().Lost; n != 0 {
		t.Errorf("%d jobs are counted as lost", n)
	}
}

// The error of one that does not wait is the network's, and not ErrLost.
func TestLostAnswerOfReserveBatch(t *testing.T) {
	f := start(t)
	f.ReserveBatch(t.Context(), "t", 1, 0)
	f.push("a", "t")
	h := f.hold("t")
	c := client.New(h.Pool)
	defer c.Close()
	failed := make(chan error, 1)
	go func() { _, err := c.ReserveBatch(t.Context(), "t", 1, time.Minute); failed <- err }()
	<-h.sent
	h.pass <- io.ErrUnexpectedEOF
	if err := arrival(t, failed); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, client.ErrLost) {
		t.Errorf("error %v", err)
	}
	if n := c.Counters().Lost; n != 0 {
		t.Errorf("%d jobs are counted as lost", n)
	}
	f.expect(state{Reserved: []string{"a"}, Counts: map[string]string{"t": "1"}, Buckets: buckets{"a": "t body"}})
}

// A job whose lease ends is delivered again, and who had it before can do nothing.
func TestRedelivery(t *testing.T) {
	f := start(t)
	f.serve()
	f.push("a", "t")
	first, err := f.Reserve(t.Context(), 0, 30*time.Millisecond, "t")
	reserve(first, err).expect(t, "a")
	second := f.reserve("t")
	if second.ID != "a" || second.Attempt != 2 || second.Token <= first.Token || second.Message != first.Message {
		t.Errorf("first %+v, then %+v", first, second)
	}
	if err := first.Ack(t.Context()); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Ack of the first: %v, want ErrLeaseLost", err)
	}
	if err := second.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	f.expect(state{})
}

// A job that has used up its attempts, by leases that end, becomes a dead letter.
func TestAttemptsUsedUpByCrashes(t *testing.T) {
	f := start(t)
	f.serve()
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 0, client.MaxAttempts(2))
	check(t, err)
	for want := 1; want <= 2; want++ {
		d, err := f.Reserve(t.Context(), 0, 10*time.Millisecond, "t")
		if reserve(d, err).expect(t, "a"); d.Attempt != want || d.MaxAttempts != 2 {
			t.Errorf("attempt %d of %d, want %d of 2", d.Attempt, d.MaxAttempts, want)
		}
	}
	reserved := f.reserving(t.Context(), time.Minute, "t")
	until(t, "it is a dead letter", func() bool { return len(f.dead("t")) == 1 })
	f.push("b", "t")
	arrival(t, reserved).expect(t, "b")
	if job, err := f.Get(t.Context(), "a"); err != nil || job.State != client.Dead || job.Attempts != 2 || job.Reason != "all 2 attempts used up" {
		t.Errorf("Get = %+v, %v", job, err)
	}
}

// leased checks that the delivery's deadline is the lease from about now on, and never later
// than its end by Redis's clock, which is this host's here.
func (f *fixture) leased(what string, d *client.Delivery, from float64, lease time.Duration) {
	f.t.Helper()
	deadline, end := float64(d.Deadline().UnixMicro())/1e6, f.due(d.ID)
	if deadline > end || deadline < from+lease.Seconds()-0.001 || end > f.clock()+lease.Seconds()+0.001 {
		f.t.Errorf("%s: deadline %f, lease ends at %f, began after %f, lease %v", what, deadline, end, from, lease)
	}
	if d.Lease() != lease {
		f.t.Errorf("%s: lease %v, want %v", what, d.Lease(), lease)
	}
}

func TestDeadline(t *testing.T) {
	f := start(t)
	push := func(id string, opts ...client.PushOption) {
		t.Helper()
		_, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0, opts...)
		check(t, err)
	}
	for _, c := range []struct {
		lease, want time.Duration
		ttr         []client.PushOption
	}{
		{0, 30 * time.Second, nil},
		{0, 5 * time.Minute, []client.PushOption{client.TTR(5 * time.Minute)}},
		{time.Hour, time.Hour, []client.PushOption{client.TTR(5 * time.Minute)}},
		{client.MaxLease, client.MaxLease, nil},
	} {
		from := f.clock()
		push("a", c.ttr...)
		d, err := f.Reserve(t.Context(), 0, c.lease, "t")
		f.leased("Reserve", reserve(d, err).expect(t, "a"), from, c.want)
		push("b", c.ttr...)
		list, err := f.ReserveBatch(t.Context(), "t", 1, c.lease)
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		f.leased("ReserveBatch", list[0], from, c.want)
		push("c", c.ttr...)
		list, err = f.Fetch(t.Context(), client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1, Lease: c.lease})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		f.leased("Fetch", list[0], from, c.want)
		for _, lease := range []time.Duration{time.Hour, time.Minute, client.MaxLease, 1500 * time.Millisecond} {
			from = f.clock()
			check(t, d.Extend(t.Context(), lease))
			f.leased("Extend", d, from, lease)
			_, err := f.ExtendBatch(t.Context(), list, lease)
			check(t, err)
			f.leased("ExtendBatch", list[0], from, lease)
		}
		from = f.clock()
		_, err = f.ExtendBatch(t.Context(), list, 0)
		check(t, err)
		f.leased("ExtendBatch as before", list[0], from, 1500*time.Millisecond)
	}
}

func TestReserveBatch(t *testing.T) {
	f := start(t)
	if list, err := f.ReserveBatch(t.Context(), "t", 10, 0); !errors.Is(err, client.ErrEmpty) || len(list) != 0 {
		t.Errorf("of an empty topic: %v, %v", list, err)
	}
	batch := jobs(0, 700, "t", 0)
	_, err := f.PushBatch(t.Context(), batch)
	check(t, err)
	list, err := f.ReserveBatch(t.Context(), "t", 600, time.Hour)
	if got := deliveryIDs(list); err != nil || !slices.Equal(got, idsOf(batch[:600])) {
		t.Errorf("reserved %q, %v", got, err)
	}
	for n, d := range list {
		if d.Attempt != 1 || d.Topic != "t" || d.Body != "b" || float64(d.Deadline().UnixMicro())/1e6 > f.due(d.ID) {
			t.Fatalf("delivered %+v until %v", d, d.Deadline())
		}
		if n%50 == 49 { // each is the caller's own
			if err := d.Ack(t.Context()); err != nil {
				t.Errorf("Ack of %s: %v", d.ID, err)
			}
		}
	}
	list, err = f.ReserveBatch(t.Context(), "t", 1000, time.Hour)
	if got := deliveryIDs(list); err != nil || !slices.Equal(got, idsOf(batch[600:])) {
		t.Errorf("then %q, %v", got, err)
	}
}

// Jobs of a megabyte come one by one from Redis, and all together to the caller.
func TestReserveBatchOfLargeBodies(t *testing.T) {
	f := start(t)
	for n := range 4 {
		_, err := f.Push(t.Context(), client.Message{ID: fmt.Sprint(n), Topic: "t", Body: strings.Repeat("x", 1<<20)}, 0)
		check(t, err)
	}
	list, err := f.ReserveBatch(t.Context(), "t", 10, time.Hour)
	if got := deliveryIDs(list); err != nil || !slices.Equal(got, []string{"0", "1", "2", "3"}) || len(list[3].Body) != 1<<20 {
		t.Errorf("reserved %q, %v", got, err)
	}
}

// Fetch reserves what is there of its topics, in their order, no more than is wanted of each
// and in all.
func TestFetch(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		type topics = []client.FetchTopic
		for _, c := range []struct {
			name   string
			topics topics
			max    int
			want   []string
		}{
			{"one", topics{{Topic: "t"}}, 1, []string{"t0"}},
			{"as many as there are", topics{{Topic: "t"}}, 250, []string{"t0", "t1", "t2"}},
			{"a topic's own limit", topics{{Topic: "t", Max: 2}}, 250, []string{"t0", "t1"}},
			{"its limit is above the other one", topics{{Topic: "t", Max: 9}}, 1, []string{"t0"}},
			{"two topics in this order", topics{{Topic: "u"}, {Topic: "t"}}, 5, []string{"u0", "u1", "u2", "t0", "t1"}},
			{"with limits", topics{{Topic: "none"}, {Topic: "t", Max: 1}, {Topic: "u", Max: 2}}, 250, []string{"t0", "u0", "u1"}},
			{"with limits, and fewer in all", topics{{Topic: "t", Max: 2}, {Topic: "u", Max: 2}}, 3, []string{"t0", "t1", "u0"}},
		} {
			f.do("FLUSHALL")
			for n := range 3 {
				f.push(fmt.Sprint("t", n), "t")
				f.push(fmt.Sprint("u", n), "u")
			}
			list, err := fetch(f.Client, t.Context(), client.FetchOptions{Topics: c.topics, Max: c.max})
			if got := deliveryIDs(list); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
			}
			if got := f.state().Reserved; len(got) != len(c.want) {
				t.Errorf("%s: reserved in Redis are %q", c.name, got)
			}
		}
	})
}

// A Fetch that waits is served what comes, and several that wait share it.
func TestFetchWaits(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		const fetchers = 3
		results := make(chan []*client.Delivery, fetchers)
		once := func(ctx context.Context) {
			list, err := fetch(f.Client, ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "u"}, {Topic: "t", Max: 100}}, Max: 250})
			if err != nil {
				t.Error(err)
			}
			results <- list
		}
		for range fetchers {
			go once(t.Context())
		}
		f.reserversWait(f.Client, "t", fetchers)
		_, err := f.PushBatch(t.Context(), jobs(0, 250, "t", 0))
		check(t, err)
		seen := map[string]bool{}
		for range fetchers {
			list := arrival(t, results)
			if len(list) > 100 || len(list) == 0 {
				t.Errorf("%d jobs, want 1 to 100", len(list))
			}
			for _, d := range list {
				seen[d.ID] = true
			}
		}
		if len(seen) != 250 {
			t.Errorf("%d of 250 jobs came", len(seen))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := fetch(f.Client, ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1})
			ended <- err
		}()
		f.reserversWait(f.Client, "t", 1)
		cancel()
		if err := arrival(t, ended); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}

// Topics may have leases and attempts of their own, and are served in their order all the same.
func TestFetchOfTopicsWithTheirOwnTerms(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		for n := range 2 {
			f.push(fmt.Sprint("t", n), "t")
			f.push(fmt.Sprint("u", n), "u")
			_, err := f.Push(t.Context(), client.Message{ID: fmt.Sprint("v", n), Topic: "v", Body: "b"}, 0, client.TTR(3*time.Minute), client.MaxAttempts(3))
			check(t, err)
		}
		o := client.FetchOptions{Max: 5, MaxAttempts: 9, Topics: []client.FetchTopic{
			{Topic: "none"},
			{Topic: "u", Lease: time.Minute},
			{Topic: "t", Lease: 2 * time.Minute, MaxAttempts: 1},
			{Topic: "v", Max: 1},
		}}
		type reserved struct {
			id       string
			lease    time.Duration
			attempts int
		}
		var list []*client.Delivery
		for _, want := range [][]reserved{
			{{"u0", time.Minute, 9}, {"u1", time.Minute, 9}},
			{{"t0", 2 * time.Minute, 1}, {"t1", 2 * time.Minute, 1}},
			{{"v0", 3 * time.Minute, 3}},
		} {
			fetched, err := fetch(f.Client, t.Context(), o)
			check(t, err)
			var got []reserved
			for _, d := range fetched {
				got = append(got, reserved{d.ID, d.Lease(), d.MaxAttempts})
				if left := time.Until(d.Deadline()); left <= d.Lease()-time.Minute || left > d.Lease() {
					t.Errorf("the lease of %s, %v, ends in %v", d.ID, d.Lease(), left)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			list = append(list, fetched...)
		}
		if err := list[2].Retry(t.Context(), 0); !errors.Is(err, client.ErrExhausted) {
			t.Errorf("retry of the only attempt: %v, want ErrExhausted", err)
		}
		if err := list[0].Retry(t.Context(), 0); err != nil {
			t.Errorf("retry of the first of nine attempts: %v", err)
		}
	})
}

// Many who wait for the same topics on terms of their own get each job once, and hear when there is none.
func TestFetchersWithTheirOwnTerms(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		const fetchers, rounds = 8, 50
		names := []string{"a", "b", "c", "d"}
		options := func(fetcher int) client.FetchOptions {
			o := client.FetchOptions{Max: 3}
			for i := range names {
				name := names[(i+fetcher)%len(names)]
				o.Topics = append(o.Topics, client.FetchTopic{Topic: name, Lease: time.Duration(1+(i*fetcher)%3) * time.Minute})
			}
			return o
		}
		ctx, cancel := context.WithCancel(t.Context())
		came := make(chan *client.Delivery, fetchers*3)
		var waiting sync.WaitGroup
		for i := range fetchers {
			waiting.Go(func() {
				for {
					list, err := fetch(f.Client, ctx, options(i))
					if err != nil {
						if !errors.Is(err, context.Canceled) {
							t.Error(err)
						}
						return
					}
					for _, d := range list {
						came <- d
					}
				}
			})
		}
		seen := map[string]int{}
		for round := range rounds {
			topic := names[round%len(names)]
			pushed := make([]client.Delayed, 1+round%5)
			for i := range pushed {
				pushed[i].Message = client.Message{ID: fmt.Sprint(round, " ", i), Topic: topic, Body: "b"}
			}
			_, err := f.PushBatch(t.Context(), pushed)
			check(t, err)
			for range pushed {
				d := arrival(t, came)
				if seen[d.ID]++; seen[d.ID] > 1 {
					t.Errorf("%s came twice", d.ID)
				}
				if err := d.Ack(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}
		cancel()
		waiting.Wait()
		o := options(1)
		o.NoWait = true
		if _, err := fetch(f.Client, t.Context(), o); !errors.Is(err, client.ErrEmpty) {
			t.Errorf("of nothing: %v, want ErrEmpty", err)
		}
		f.expect(state{})
	})
}

// One who waits for them gets what comes, as its topic says.
func TestFetchWaitsOnItsOwnTerms(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		for _, topic := range []string{"t", "u"} {
			f := start(t)
			got := make(chan *client.Delivery, 1)
			go func() {
				list, err := fetch(f.Client, t.Context(), client.FetchOptions{Max: 1, Topics: []client.FetchTopic{{Topic: "t", Lease: time.Minute}, {Topic: "u", Lease: time.Hour}}})
				if err != nil {
					t.Error(err)
					list = []*client.Delivery{nil}
				}
				got <- list[0]
			}()
			f.reserversWait(f.Client, topic, 1)
			f.push("a", topic)
			want := map[string]time.Duration{"t": time.Minute, "u": time.Hour}[topic]
			if d := arrival(t, got); d == nil || d.Topic != topic || d.Lease() != want {
				t.Errorf("%s: got %+v, want a lease of %v", topic, d, want)
			}
		}
	})
}

// The consumer's number of attempts counts where the producer has not named one.
func TestFetchMaxAttempts(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		for id, opts := range map[string][]client.PushOption{"own": {client.MaxAttempts(3)}, "none": nil} {
			_, err := f.Push(t.Context(), client.Message{ID: id, Topic: "t", Body: "b"}, 0, opts...)
			check(t, err)
		}
		limits := map[string]int{"own": 3, "none": 2}
		ended := map[string]int{}
		for len(ended) < 2 {
			list, err := fetch(f.Client, t.Context(), client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 10, MaxAttempts: 2})
			check(t, err)
			for _, d := range list {
				if d.MaxAttempts != limits[d.ID] {
					t.Errorf("%s: %d attempts in all, want %d", d.ID, d.MaxAttempts, limits[d.ID])
				}
				if err := d.Retry(t.Context(), 0); errors.Is(err, client.ErrExhausted) {
					ended[d.ID] = d.Attempt
				} else if err != nil {
					t.Fatal(err)
				}
			}
		}
		if ended["own"] != 3 || ended["none"] != 2 {
			t.Errorf("ended after %v attempts, want %v", ended, limits)
		}
	})
}

// Close ends those who wait to reserve.
func TestCloseEndsReserves(t *testing.T) {
	eachFetch(t, func(t *testing.T, fetch fetch) {
		f := start(t)
		connections := f.connections()
		c := f.open()
		var waits []<-chan reservation
		for n := range 10 {
			waits = append(waits, reserveLater(func() (*client.Delivery, error) {
				topics := []client.FetchTopic{{Topic: fmt.Sprint("t", n)}, {Topic: "shared"}}
				_, err := fetch(c, t.Context(), client.FetchOptions{Topics: topics, Max: 1, Timeout: time.Hour, Lease: time.Duration(n) * time.Minute})
				return nil, err
			}))
		}
		f.reserversWait(c, "shared", len(waits))
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, wait := range waits {
			if r := arrival(t, wait); !errors.Is(r.err, client.ErrClosed) {
				t.Errorf("error %v, want ErrClosed", r.err)
			}
		}
		until(t, "its connections are gone", func() bool { return f.connections() == connections })
	})
}

// One connection suffices for all, also for a loop over dead letters that sends them again.
func TestOneConnectionSuffices(t *testing.T) {
	f := start(t)
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, MaxActive: 1})
	defer c.Close()
	const n = 150
	f.seedDead("t", n, 1)
	reserved := reserveLater(func() (*client.Delivery, error) { return c.Reserve(t.Context(), 0, time.Minute, "t") })
	f.reserversWait(c, "t", 1)
	ended := make(chan error, 1)
	go func() {
		ended <- func() error {
			for d, err := range c.Dead(t.Context(), "t") {
				if err != nil {
					return err
				}
				if err := c.Requeue(t.Context(), d.ID); err != nil {
					return err
				}
			}
			list, err := c.ReserveBatch(t.Context(), "t", n, time.Minute)
			if err != nil || len(list) != n-1 {
				return fmt.Errorf("reserved %d, %w", len(list), err)
			}
			if _, err := c.ExtendBatch(t.Context(), list, 0); err != nil {
				return err
			}
			_, err = c.AckBatch(t.Context(), list)
			return err
		}()
	}()
	d := arrival(t, reserved).d
	check(t, arrival(t, ended))
	if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	f.expect(state{})
}

// For how long a job was ready is told of first attempts only.
func TestLateBy(t *testing.T) {
	f := start(t)
	for name, opts := range map[string][]client.PushOption{"kept for 7 days": nil, "kept for an hour": {client.ReadyMaxLifetime(time.Hour)}} {
		_, err := f.Push(t.Context(), client.Message{ID: name, Topic: "t", Body: "b"}, 0, opts...)
		check(t, err)
		from := f.clock()
		until(t, "it has been ready for a while", func() bool { return f.clock() > from+0.03 })
		d := f.reserve("t")
		if d.LateBy < 30*time.Millisecond || d.LateBy > hangBound {
			t.Errorf("%s: late by %v", name, d.LateBy)
		}
		check(t, d.Retry(t.Context(), 0))
		if d = f.reserve("t"); d.LateBy != -1 {
			t.Errorf("%s, second attempt: late by %v", name, d.LateBy)
		}
	}
}
