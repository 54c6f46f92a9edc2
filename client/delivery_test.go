package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// verbs are all that can be done with a Delivery.
var verbs = map[string]func(ctx context.Context, d *client.Delivery) error{
	"Ack":      func(ctx context.Context, d *client.Delivery) error { return d.Ack(ctx) },
	"Retry":    func(ctx context.Context, d *client.Delivery) error { return d.Retry(ctx, time.Hour) },
	"Release":  func(ctx context.Context, d *client.Delivery) error { return d.Release(ctx) },
	"Postpone": func(ctx context.Context, d *client.Delivery) error { return d.Postpone(ctx, time.Hour) },
	"Extend":   func(ctx context.Context, d *client.Delivery) error { return d.Extend(ctx, time.Hour) },
	"Bury":     func(ctx context.Context, d *client.Delivery) error { return d.Bury(ctx, "bad") },
}

// What each call makes of the job, and of its attempts.
func TestSettle(t *testing.T) {
	f := start(t)
	kept := buckets{"a": "t old", "b": "t old"}
	b := queues{"t": {"b"}}
	count := map[string]string{"t": "1"}
	for _, c := range []struct {
		name     string
		call     func(d *client.Delivery) error
		want     state
		wantDue  time.Duration
		attempts int // that were made
		text     string
	}{
		{"Ack", func(d *client.Delivery) error { return d.Ack(t.Context()) }, state{Ready: b, Buckets: buckets{"b": "t old"}}, never, 0, ""},
		{"Retry", func(d *client.Delivery) error { return d.Retry(t.Context(), time.Minute) }, state{Pool: []string{"a"}, Ready: b, Buckets: kept}, time.Minute, 1, ""},
		{"Retry at once", func(d *client.Delivery) error { return d.Retry(t.Context(), 0) }, state{Ready: queues{"t": {"b", "a"}}, Buckets: kept}, never, 1, ""},
		{"Retry with its cause", func(d *client.Delivery) error {
			return d.Retry(t.Context(), 0, client.Cause(errors.New("refused")))
		}, state{Ready: queues{"t": {"b", "a"}}, Buckets: kept}, never, 1, "refused"},
		{"Retry without a cause", func(d *client.Delivery) error { return d.Retry(t.Context(), 0, client.Cause(nil)) }, state{Ready: queues{"t": {"b", "a"}}, Buckets: kept}, never, 1, ""},
		{"Release", func(d *client.Delivery) error { return d.Release(t.Context()) }, state{Ready: queues{"t": {"a", "b"}}, Buckets: kept}, never, 0, ""},
		{"Postpone", func(d *client.Delivery) error { return d.Postpone(t.Context(), time.Minute) }, state{Pool: []string{"a"}, Ready: b, Buckets: kept}, time.Minute, 0, ""},
		{"Extend", func(d *client.Delivery) error { return d.Extend(t.Context(), 2*time.Hour) }, state{Reserved: []string{"a"}, Counts: count, Ready: b, Buckets: kept}, 2 * time.Hour, 1, ""},
		{"Bury", func(d *client.Delivery) error {
			return d.Bury(t.Context(), "bad", client.Cause(errors.New("refused")))
		}, state{Ready: b, Buckets: buckets{"b": "t old"}, Dead: queues{"t": {"a"}}, Letters: buckets{"a": "t old"}}, never, 1, "refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := f.with(t)
			f.seed(all(ready("a", "t"), ready("b", "t"))...)
			d := f.reserve("t")
			from := f.clock()
			check(t, c.call(d))
			f.expect(c.want)
			expectDue(t, f.due("a"), from, f.clock(), c.wantDue)
			job, err := f.Get(t.Context(), "a")
			if gone := c.name == "Ack"; errors.Is(err, client.ErrNotFound) != gone || job.Attempts != c.attempts || job.Error != c.text {
				t.Errorf("Get = %+v, %v, want %d attempts, error %q", job, err, c.attempts, c.text)
			}
		})
	}
}

// Long texts are cut, at a whole character.
func TestLongTexts(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	long := strings.Repeat("ä", 8<<10)
	check(t, f.reserve("t").Bury(t.Context(), long, client.Cause(errors.New(long))))
	job, err := f.Get(t.Context(), "a")
	for _, text := range []string{job.Error, job.Reason} {
		if err != nil || len(text) > 8<<10 || len(text) < 8<<10-10 || !strings.HasSuffix(text, "ä …") {
			t.Errorf("%d bytes, … %q, %v", len(text), text[max(len(text)-10, 0):], err)
		}
	}
}

// However a lease is lost, no call changes anything then, and the Client says why.
func TestFencing(t *testing.T) {
	f := start(t)
	endOfLease := func(f *fixture, d *client.Delivery) {
		check(f.t, d.Extend(f.t.Context(), time.Millisecond))
		end := f.due(d.ID)
		until(f.t, "the lease has ended", func() bool { return f.clock() > end })
	}
	for way, lose := range map[string]func(f *fixture, d *client.Delivery){
		"its end": endOfLease,
		"a push":  func(f *fixture, d *client.Delivery) { f.push("a", "t") },
		"a push of an old client": func(f *fixture, d *client.Delivery) {
			f.do("HSET", "delayer:job_bucket:a", "topic", "t", "body", "old")
			f.do("ZADD", "delayer:job_pool", int(f.clock())+60, "a")
		},
		"a remove": func(f *fixture, d *client.Delivery) {
			if removed, err := f.Remove(f.t.Context(), "a"); !removed || err != nil {
				f.t.Fatal(removed, err)
			}
		},
		"a reschedule": func(f *fixture, d *client.Delivery) {
			check(f.t, f.Reschedule(f.t.Context(), "a", time.Hour))
		},
		"a reschedule to now": func(f *fixture, d *client.Delivery) {
			check(f.t, f.Reschedule(f.t.Context(), "a", 0))
		},
		"a new reserve": func(f *fixture, d *client.Delivery) {
			check(f.t, f.Reschedule(f.t.Context(), "a", 0))
			f.reserve("t")
		},
	} {
		for name, call := range verbs {
			t.Run(name+" after "+way, func(t *testing.T) {
				f := f.with(t)
				f.seed()
				f.push("a", "t")
				d := f.reserve("t")
				lose(f, d)
				before, due := f.state(), f.due("a")
				err := call(t.Context(), d)
				if !errors.Is(err, client.ErrLeaseLost) {
					t.Errorf("%v, want ErrLeaseLost", err)
				}
				expectText(t, name, err, fmt.Sprintf(`delayer: %s "a": `, strings.ToLower(name)))
				f.expect(before)
				if now := f.due("a"); now != due && (now == now || due == due) {
					t.Errorf("due at %f, was %f", now, due)
				}
			})
		}
	}
}

// A delivery is settled once: what comes later fails, whoever was first, and asks Redis nothing.
func TestSettledOnce(t *testing.T) {
	f := start(t)
	for first, settle := range verbs {
		if first == "Extend" {
			continue
		}
		f.seed()
		f.push("a", "t")
		d := f.reserve("t")
		check(t, settle(t.Context(), d))
		before, scripts := f.state(), f.info("commandstats", "cmdstat_evalsha:calls=")
		for name, call := range verbs {
			if err := call(t.Context(), d); !errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("%s after %s: %v, want ErrLeaseLost", name, first, err)
			}
		}
		f.expect(before)
		if n := f.info("commandstats", "cmdstat_evalsha:calls=") - scripts; n > 1 { // Extend's
			t.Errorf("%d scripts were run after %s", n, first)
		}
	}
}

// Of calls at one moment exactly one settles the delivery.
func TestConcurrentSettlements(t *testing.T) {
	f := start(t)
	names := []string{"Ack", "Retry", "Ack", "Release", "Bury"}
	for range 100 {
		f.seed()
		f.push("a", "t")
		d := f.reserve("t")
		type outcome struct {
			name string
			err  error
		}
		ends := make(chan outcome, len(names))
		for _, name := range names {
			go func() { ends <- outcome{name, verbs[name](t.Context(), d)} }()
		}
		var won []string
		for range names {
			switch e := arrival(t, ends); {
			case e.err == nil:
				won = append(won, e.name)
			case !errors.Is(e.err, client.ErrLeaseLost):
				t.Fatal(e.err)
			}
		}
		got := f.state()
		places := map[string]int{"Retry": len(got.Pool), "Release": len(got.Ready["t"]), "Bury": len(got.Letters), "Ack": 1 - len(got.Buckets) - len(got.Letters)}
		if len(won) != 1 || places[won[0]] != 1 || len(got.Reserved) > 0 {
			t.Fatalf("%q won, state %+v", won, got)
		}
	}
}

// holdJob is a pool that keeps back the answers to calls that name the job.
func (f *fixture) holdJob(id string) *holder {
	h := f.hold("")
	h.queue, h.jobs = []byte("\r\n"+id+"\r\n"), true
	return h
}

// settleLater starts a call in the background, and waits until its answer is kept back.
func (h *holder) settleLater(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	<-h.sent
	return ended
}

// A call whose answer was lost may be repeated: Ack succeeds then, if it has not before, and
// the others at worst find that they were done. Deadline stays on the safe side.
func TestRepeatedAfterALostAnswer(t *testing.T) {
	f := start(t)
	f.reservedOnce("loads the script")
	for name, call := range verbs {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.seed()
			f.push("a", "t")
			h := f.holdJob("a")
			c := client.New(h.Pool)
			defer c.Close()
			d, err := c.Reserve(t.Context(), 0, 2*time.Hour, "t")
			reserve(d, err).expect(t, "a")
			f.warm(call)
			ended := h.settleLater(func() error { return call(t.Context(), d) })
			h.pass <- io.ErrUnexpectedEOF
			if err := arrival(t, ended); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("error %v, want that of the network", err)
			}
			after := f.state()
			if deadline, end := float64(d.Deadline().UnixMicro())/1e6, f.due("a"); deadline > end && name == "Extend" {
				t.Errorf("deadline %f, but the lease ends at %f", deadline, end)
			}
			ended = h.settleLater(func() error { return call(t.Context(), d) })
			h.pass <- nil
			err = arrival(t, ended)
			if again := name == "Ack" || name == "Extend"; again && err != nil || !again && !errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("repeated: %v", err)
			}
			f.expect(after)
		})
	}
}

// reservedOnce loads the script of Reserve.
func (f *fixture) reservedOnce(topic string) { f.ReserveBatch(f.t.Context(), topic, 1, 0) }

// warm makes the call on another job, so that its script is known.
func (f *fixture) warm(call func(ctx context.Context, d *client.Delivery) error) {
	f.t.Helper()
	f.push("other", "warm")
	check(f.t, call(f.t.Context(), f.reserve("warm")))
	for _, id := range []string{"other", "other"} {
		f.Remove(f.t.Context(), id)
	}
}

// A repeated Ack that finds the job gone by others' doing says so, if the first one was
// never sent.
func TestAckThatWasNotSent(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	d := f.reserve("t")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Ack(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("Ack with its context done: %v", err)
	}
	f.Remove(t.Context(), "a")
	if err := d.Ack(t.Context()); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Ack of a job that was removed: %v, want ErrLeaseLost", err)
	}
}

// An Ack that was not done is done when it is repeated, even under an Extend whose answer was lost.
func TestAckAfterALostExtend(t *testing.T) {
	f := start(t)
	f.reservedOnce("t")
	f.push("a", "t")
	f.warm(verbs["Extend"])
	h := f.holdJob("a")
	c := client.New(h.Pool)
	defer c.Close()
	d, err := c.Reserve(t.Context(), 0, time.Minute, "t")
	reserve(d, err).expect(t, "a")
	ended := h.settleLater(func() error { return d.Extend(t.Context(), time.Hour) })
	h.pass <- io.ErrUnexpectedEOF
	if arrival(t, ended) == nil {
		t.Error("Extend: no error")
	}
	f.warm(verbs["Ack"])
	ended = h.settleLater(func() error { return d.Ack(t.Context()) })
	h.pass <- nil
	if err := arrival(t, ended); err != nil {
		t.Errorf("Ack: %v", err)
	}
	f.expect(state{})
}

// Of two Extends at one moment the one counts that Redis did later, whichever's answer comes first.
func TestConcurrentExtends(t *testing.T) {
	f := start(t)
	f.reservedOnce("t")
	f.warm(verbs["Extend"])
	f.push("a", "t")
	h := f.holdJob("a")
	c := client.New(h.Pool)
	defer c.Close()
	d, err := c.Reserve(t.Context(), 0, time.Minute, "t")
	end := reserve(d, err).d.Deadline()
	ended := h.settleLater(func() error { return d.Extend(t.Context(), time.Hour) })
	until(t, "it is done in Redis", func() bool { return f.due("a") > float64(end.Unix()+60) })
	from := f.clock()
	_, err = f.ExtendBatch(t.Context(), []*client.Delivery{d}, 2*time.Minute)
	check(t, err)
	h.pass <- nil
	if err := arrival(t, ended); err != nil {
		t.Error(err)
	}
	f.leased("both", d, from, 2*time.Minute)
}

// reserveAll reserves n jobs of the Client, 0000 and so on.
func (f *fixture) reserveAll(c *client.Client, n int) []*client.Delivery {
	f.t.Helper()
	_, err := c.PushBatch(f.t.Context(), jobs(0, n, "t", 0))
	check(f.t, err)
	list, err := c.ReserveBatch(f.t.Context(), "t", n, time.Hour)
	if err != nil || len(list) != n {
		f.t.Fatalf("reserved %d of %d, %v", len(list), n, err)
	}
	return list
}

// Acks that come while others are under way go together, and each caller gets its own error.
func TestAcksShareRoundTrips(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUp(t.Context()))
	const acks = 100
	list := f.reserveAll(c, acks+2)
	lost, left := list[acks], list[acks+1]
	check(t, f.Reschedule(t.Context(), lost.ID, 0))
	before := f.info("commandstats", "cmdstat_evalsha:calls=")
	f.redis.Hang()
	ended := make(chan error, acks)
	for i := range acks {
		go func() { ended <- list[i].Ack(t.Context()) }()
		await(t, i+1, client.MaxSettleCalls, c.Settlements)
	}
	lostEnded, leftEnded := make(chan error, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { lostEnded <- lost.Ack(t.Context()) }()
	go func() { leftEnded <- left.Ack(ctx) }()
	await(t, acks+2, client.MaxSettleCalls, c.Settlements)
	cancel()
	if err := arrival(t, leftEnded); !errors.Is(err, context.Canceled) {
		t.Errorf("left: %v", err)
	}
	f.redis.Resume()
	for range acks {
		if err := arrival(t, ended); err != nil {
			t.Error(err)
		}
	}
	if err := arrival(t, lostEnded); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("lost: %v", err)
	}
	if calls := f.info("commandstats", "cmdstat_evalsha:calls=") - before; calls > client.MaxSettleCalls+1 {
		t.Errorf("%d calls for %d acks", calls, acks)
	}
	f.expect(state{Reserved: []string{left.ID}, Counts: map[string]string{"t": "1"}, Ready: queues{"t": {lost.ID}}, Buckets: buckets{left.ID: "t b", lost.ID: "t b"}})
	if err := left.Ack(t.Context()); err != nil {
		t.Errorf("the one that left, again: %v", err)
	}
}

// Calls of each kind that gather go together, and nobody gets another's error.
func TestGatheredSettlements(t *testing.T) {
	f := start(t)
	c := f.patient()
	check(t, c.WarmUpAll(t.Context()))
	kinds := []string{"Ack", "Retry", "Extend", "Bury"} // Release and Postpone go with Retry
	blockers := client.MaxSettleCalls * len(kinds)
	names := []string{"Ack", "Retry", "Release", "Postpone", "Extend", "Bury"}
	list := f.reserveAll(c, blockers+2*len(names))
	for n := range names { // the second half has lost its leases
		check(t, f.Reschedule(t.Context(), list[blockers+len(names)+n].ID, time.Minute))
	}
	f.redis.Hang()
	ends := make([]chan error, len(list))
	for n, d := range list {
		ends[n] = make(chan error, 1)
		call := verbs[kinds[n%len(kinds)]]
		if n >= blockers {
			call = verbs[names[(n-blockers)%len(names)]]
		}
		go func() { ends[n] <- call(t.Context(), d) }()
		await(t, n+1, blockers, c.Settlements)
	}
	f.redis.Resume()
	for n := range list {
		err := arrival(t, ends[n])
		if lost := n >= blockers+len(names); lost != errors.Is(err, client.ErrLeaseLost) || !lost && err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	at := func(places ...int) (ids []string) {
		for _, n := range places {
			ids = append(ids, list[n].ID)
		}
		slices.Sort(ids)
		return ids
	}
	got := f.state()
	slices.Sort(got.Reserved)
	slices.Sort(got.Dead["t"])
	if !slices.Equal(got.Reserved, at(2, 6, blockers+4)) || !slices.Equal(got.Ready["t"], at(blockers+2)) || !slices.Equal(got.Dead["t"], at(3, 7, blockers+5)) || len(got.Pool) != client.MaxSettleCalls+2+len(names) {
		t.Errorf("state %+v", got)
	}
}

// On a Redis that hangs a call with a deadline returns then; one without waits for the answer,
// as long as the connection's timeout allows, whatever becomes of its context.
func TestSettleOnHungRedis(t *testing.T) {
	f := start(t)
	patient := f.patient()
	impatient := map[string]*client.Client{} // each has a connection that works
	withDeadline, without := map[string]*client.Delivery{}, map[string]*client.Delivery{}
	for name := range verbs {
		impatient[name] = client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: 100 * time.Millisecond})
		defer impatient[name].Close()
		for c, list := range map[*client.Client]map[string]*client.Delivery{impatient[name]: without, patient: withDeadline} {
			f.push(name, name)
			d, err := c.Reserve(t.Context(), 0, time.Hour, name)
			list[name] = reserve(d, err).expect(t, name)
		}
	}
	f.redis.Hang()
	defer f.redis.Resume()
	for name, call := range verbs {
		ended := make(chan error, 1)
		go func() { ended <- call(deadline(t, 10*time.Millisecond), withDeadline[name]) }()
		if err := arrival(t, ended); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s with a deadline: %v", name, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- call(ctx, without[name]) }()
		await(t, 1, 1, impatient[name].Settlements)
		cancel()
		var timeout net.Error
		if err := arrival(t, ended); !errors.As(err, &timeout) || !timeout.Timeout() || errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("%s, cancelled: %v, want the connection's timeout", name, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := patient.AckBatch(deadline(t, 10*time.Millisecond), []*client.Delivery{withDeadline["Ack"]})
		ended <- err
	}()
	if err := arrival(t, ended); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("AckBatch with a deadline: %v", err)
	}
}

// A pool without a free connection is an error in time, and not a lost lease.
func TestSettleWithoutAConnection(t *testing.T) {
	f := start(t)
	for _, wait := range []bool{true, false} {
		pool := f.redis.Pool()
		pool.MaxActive, pool.Wait = 1, wait
		c := client.New(pool)
		defer c.Close()
		f.push("a", "t")
		d, err := c.Reserve(t.Context(), 0, time.Hour, "t")
		reserve(d, err).expect(t, "a")
		conn := pool.Get()
		want := context.DeadlineExceeded
		if !wait {
			want = redis.ErrPoolExhausted
		}
		for name, call := range verbs {
			ctx := deadline(t, 20*time.Millisecond)
			if err := call(ctx, d); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", name, err, want)
			}
		}
		if r := reserve(c.Reserve(deadline(t, 20*time.Millisecond), 0, 0, "t")); r.err == nil {
			t.Errorf("Reserve: %+v", r)
		}
		if _, err := c.AckBatch(deadline(t, 20*time.Millisecond), []*client.Delivery{d}); !errors.Is(err, want) {
			t.Errorf("AckBatch: %v, want %v", err, want)
		}
		none := make(chan error, 1)
		go func() { _, err := c.AckBatch(t.Context(), nil); none <- err }()
		if err := arrival(t, none); err != nil { // needs no connection
			t.Errorf("AckBatch of none: %v", err)
		}
		conn.Close()
		if err := d.Ack(t.Context()); err != nil {
			t.Errorf("Ack when there is one: %v", err)
		}
		f.expect(state{})
	}
}

// A closed Client settles nothing, and says so.
func TestSettleOnAClosedClient(t *testing.T) {
	f := start(t)
	c := f.open()
	f.push("a", "t")
	d, err := c.Reserve(t.Context(), 0, time.Hour, "t")
	reserve(d, err).expect(t, "a")
	check(t, c.Close())
	before := f.state()
	for name, call := range verbs {
		if err := call(t.Context(), d); !errors.Is(err, client.ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
	if _, err := c.AckBatch(t.Context(), []*client.Delivery{d}); !errors.Is(err, client.ErrClosed) {
		t.Errorf("AckBatch: %v, want ErrClosed", err)
	}
	f.expect(before)
}

// Results come in the deliveries' order, each with its own.
func TestAckBatchAndExtendBatch(t *testing.T) {
	f := start(t)
	const n = 600
	list := f.reserveAll(f.Client, n)
	lost := map[int]bool{0: true, 249: true, 250: true, 599: true}
	for i := range lost {
		if err := f.Reschedule(t.Context(), list[i].ID, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(list)
	check := func(name string, results []client.Result, err error) {
		t.Helper()
		if !errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("%s: %v, want ErrLeaseLost", name, err)
		}
		expectText(t, name, err, `delayer: `+name+`: 4 of 600 jobs: "0599": `)
		if len(results) != n {
			t.Fatalf("%s: %d results", name, len(results))
		}
		for i, r := range results {
			if r.ID != list[i].ID || errors.Is(r.Err, client.ErrLeaseLost) != lost[n-1-i] || !lost[n-1-i] && r.Err != nil {
				t.Errorf("%s: result %d is %+v", name, i, r)
			}
		}
	}
	results, err := f.ExtendBatch(t.Context(), list, 2*time.Hour)
	check("extend batch", results, err)
	for i, d := range list {
		if extended := d.Lease() == 2*time.Hour; extended == lost[n-1-i] {
			t.Errorf("%s: lease %v", d.ID, d.Lease())
		}
	}
	results, err = f.AckBatch(t.Context(), list)
	check("ack batch", results, err)
	if got := f.state(); len(got.Pool) != len(lost) || len(got.Buckets) != len(lost) || len(got.Reserved) > 0 {
		t.Errorf("left are %q, %q", got.Pool, got.Reserved)
	}
	results, err = f.AckBatch(t.Context(), nil)
	if len(results) != 0 || err != nil {
		t.Errorf("of none: %v, %v", results, err)
	}
}

// A delivery that is there twice is acked once, and extended all the same.
func TestBatchWithADeliveryTwice(t *testing.T) {
	f := start(t)
	list := f.reserveAll(f.Client, 2)
	twice := []*client.Delivery{list[0], list[1], list[0]}
	if results, err := f.ExtendBatch(t.Context(), twice, 2*time.Hour); err != nil || len(results) != 3 {
		t.Errorf("ExtendBatch = %v, %v", results, err)
	}
	for _, d := range list {
		if float64(d.Deadline().UnixMicro())/1e6 > f.due(d.ID) {
			t.Errorf("%s: deadline %v, but the lease ends at %f", d.ID, d.Deadline(), f.due(d.ID))
		}
	}
	results, err := f.AckBatch(t.Context(), twice)
	if !errors.Is(err, client.ErrLeaseLost) || len(results) != 3 || results[0].Err != nil || results[1].Err != nil || !errors.Is(results[2].Err, client.ErrLeaseLost) {
		t.Errorf("AckBatch = %v, %v", results, err)
	}
	f.expect(state{})
}

// An error of the network in the second chunk leaves the first one's results as they are; what
// was not done, or may have been, can be repeated.
func TestAckBatchCutInTheSecondChunk(t *testing.T) {
	const n = 600
	f := start(t)
	f.reservedOnce("t")
	h := f.holdJob("0250") // the first one of the second chunk
	c := client.New(h.Pool)
	defer c.Close()
	f.warm(verbs["Ack"])
	_, err := f.PushBatch(t.Context(), jobs(0, n, "t", 0))
	check(t, err)
	list, err := c.ReserveBatch(t.Context(), "t", n, time.Hour)
	if err != nil || len(list) != n {
		t.Fatal(len(list), err)
	}
	type batch struct {
		results []client.Result
		err     error
	}
	ack := func() <-chan batch {
		ended := make(chan batch, 1)
		go func() {
			results, err := c.AckBatch(t.Context(), list)
			ended <- batch{results, err}
		}()
		<-h.sent
		return ended
	}
	ended := ack()
	h.pass <- io.ErrUnexpectedEOF
	got := arrival(t, ended)
	if !errors.Is(got.err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", got.err)
	}
	for i, r := range got.results {
		if i < 250 && r.Err != nil || i >= 250 && !errors.Is(r.Err, io.ErrUnexpectedEOF) {
			t.Fatalf("result %d is %+v", i, r)
		}
	}
	if left := f.state(); len(left.Reserved) != 100 { // the second chunk was done
		t.Errorf("%d are reserved", len(left.Reserved))
	}
	ended = ack()
	h.pass <- nil
	for i, r := range arrival(t, ended).results {
		if i < 250 != errors.Is(r.Err, client.ErrLeaseLost) || i >= 250 && r.Err != nil {
			t.Fatalf("repeated: result %d is %+v", i, r)
		}
	}
	f.expect(state{})
}

// Get, Remove and Reschedule know a job that is reserved, or waits for a retry.
func TestReservedJobByItsID(t *testing.T) {
	f := start(t)
	_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, 0, client.MaxAttempts(5))
	check(t, err)
	get := func(want client.State, attempts int, text string) client.Job {
		t.Helper()
		job, err := f.Get(t.Context(), "a")
		if err != nil || job.State != want || job.Attempts != attempts || job.MaxAttempts != 5 || job.Error != text || job.Body != "body" {
			t.Errorf("Get = %+v, %v, want it %s, %d attempts, error %q", job, err, want, attempts, text)
		}
		return job
	}
	d := f.reserve("t")
	if job := get(client.Reserved, 1, ""); job.Due.Before(d.Deadline()) {
		t.Errorf("due at %v, before %v", job.Due, d.Deadline())
	}
	check(t, d.Retry(t.Context(), time.Hour, client.Cause(errors.New("refused"))))
	get(client.Waiting, 1, "refused")
	check(t, f.Reschedule(t.Context(), "a", 0))
	get(client.Ready, 1, "refused")
	if d = f.reserve("t"); d.Attempt != 2 {
		t.Errorf("attempt %d, want 2", d.Attempt)
	}
	check(t, f.Reschedule(t.Context(), "a", time.Hour))
	get(client.Waiting, 2, "refused")
	f.expect(state{Pool: []string{"a"}, Buckets: buckets{"a": "t body"}})
	for _, way := range []string{"waits for a retry", "is reserved"} {
		if removed, err := f.Remove(t.Context(), "a"); !removed || err != nil {
			t.Errorf("Remove of one that %s = %v, %v", way, removed, err)
		}
		f.expect(state{})
		f.push("a", "t")
		d = f.reserve("t")
	}
	f.serve()
	check(t, d.Extend(t.Context(), time.Millisecond))
	f.Remove(t.Context(), "a")
	if r := reserve(f.Reserve(t.Context(), 200*time.Millisecond, 0, "t")); !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("what was removed comes back: %+v", r)
	}
}
