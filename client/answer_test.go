package client_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/pooltest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// holder is a pool that delays the replies to pops of a topic.
type holder struct {
	client.Redis
	queue []byte
	jobs  bool          // delay calls that name a job instead
	sent  chan struct{} // one for each pop whose reply is delayed
	pass  chan error    // lets one reply through, or replaces it with an error
}

func (f *fixture) hold(topic string) *holder {
	h := newHolder(topic)
	redistest.NotExternal(f.TB, "watches what its connections carry")
	h.Redis = pooltest.Through(f.Addr, f.Clustered, 8, h.held)
	return h
}

func newHolder(topic string) *holder {
	return &holder{queue: []byte(":ready_queue:" + topic + "\r"), sent: make(chan struct{}, 100), pass: make(chan error)}
}

func (h *holder) held(_ context.Context, conn net.Conn) net.Conn { return &held{Conn: conn, holder: h} }

// held is one of the holder's connections.
type held struct {
	net.Conn
	holder *holder
	holds  atomic.Bool
}

func (c *held) Write(b []byte) (int, error) {
	looks := !c.holder.jobs && bytes.HasPrefix(b, []byte("*8\r\n")) // a pop of one topic has more arguments than a poll
	pops := bytes.Contains(b, []byte("EVAL")) && bytes.Contains(b, c.holder.queue) && !looks
	if pops {
		c.holds.Store(true)
	}
	n, err := c.Conn.Write(b)
	if pops {
		c.holder.sent <- struct{}{}
	}
	return n, err
}

func (c *held) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.holds.CompareAndSwap(true, false) {
		if lost := <-c.holder.pass; lost != nil {
			return 0, lost
		}
	}
	return n, err
}

// heldWaiter is a BPop that has found the topic empty, and waits.
func (f *fixture) heldWaiter(ctx context.Context, c *client.Client, h *holder, timeout time.Duration) <-chan result {
	f.TB.Helper()
	return f.waiting(c, func() <-chan result {
		registered := client.Registered(c, "t") // a registered Client does not poll
		popped := bpop(ctx, c, timeout, "t")
		if !registered {
			<-h.sent
			h.pass <- nil
		}
		return popped
	}, "t")
}

// withoutLook repeats a test that must run between two of the checks that happen once a second.
func (f *fixture) withoutLook(c *client.Client, what func(round int)) {
	f.TB.Helper()
	const rounds = 5
	for n := range rounds {
		before := c.Checks()
		what(n)
		if c.Checks() == before {
			return
		}
	}
	f.TB.Errorf("%d times out of %d it took a look", rounds, rounds)
}

// A wake-up during a pop is newer than the pop's reply.
func TestWokenDuringAPop(t *testing.T) {
	f := start(t, undivided)
	h := f.hold("t")
	c := f.on(h.Redis)
	f.Pop(t.Context(), "t") // loads the script
	f.withoutLook(c, func(round int) {
		id := fmt.Sprint(round)
		popped := f.heldWaiter(t.Context(), c, h, 0)
		f.wake("t") // another consumer was faster
		<-h.sent
		wakes := client.Wakes(c, "t")
		f.push(id, "t")
		until(t, "the push is heard", func() bool { return client.Wakes(c, "t") > wakes })
		h.pass <- nil
		<-h.sent
		h.pass <- nil
		expectJob(t, popped, id)
	})
}

// lateKey marks the context of a call that gets its connection late.
type lateKey struct{}

// holdLate is hold with a pool that opens no connection for marked calls until goOn is closed. The channel closed is
// closed together with that connection.
func (f *fixture) holdLate(topic string) (h *holder, goOn, closed chan struct{}) {
	h, goOn, closed = newHolder(topic), make(chan struct{}), make(chan struct{})
	redistest.NotExternal(f.TB, "watches what its connections carry")
	h.Redis = pooltest.Through(f.Addr, f.Clustered, 0, func(ctx context.Context, conn net.Conn) net.Conn {
		conn = h.held(ctx, conn)
		if ctx.Value(lateKey{}) != nil {
			<-goOn
			conn = lateConn{conn, sync.OnceFunc(func() { close(closed) })}
		}
		return conn
	})
	return h, goOn, closed
}

type lateConn struct {
	net.Conn
	closes func()
}

func (l lateConn) Close() error {
	l.closes()
	return l.Conn.Close()
}

// A wake-up of one topic, for a caller of several topics that has no connection yet, makes other callers poll all of
// its topics.
func TestWokenBeforeTheFirstPoll(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	f.Pop(t.Context(), "t")
	h, goOn, closed := f.holdLate("t")
	c := f.on(h.Redis)
	ctx, cancel := context.WithCancel(t.Context())
	before := f.heldWaiter(ctx, c, h, 0) // subscribes to the topic
	cancel()
	arrival(t, before)

	ctx = context.WithValue(t.Context(), lateKey{}, true)
	popped := bpop(ctx, c, 0, "t", "u")
	f.called(c, "u")
	f.wake("t")
	<-h.sent
	close(goOn)
	<-closed
	h.pass <- nil
	<-h.sent // the message may be about a newer job
	h.pass <- nil
	f.waits(c, "u", 1)
	f.push("a", "u")
	expectJob(t, popped, "a")
}

// A topic stays known after a Pop has finished if other callers need it.
func TestTopicInUseIsKept(t *testing.T) {
	f := start(t, undivided)
	h, goOn, _ := f.holdLate("none")
	c := f.on(h.Redis)
	pool, single := h.Redis.(*redis.Pool)
	if single {
		pool.MaxIdle = 0
	}
	check(t, c.Ping(t.Context())) // checks the layout first, and leaves no connection
	if single {
		pool.MaxIdle = 8
	}
	popped := bpop(context.WithValue(t.Context(), lateKey{}, true), c, 0, "t", "u")
	f.called(c, "u")
	for _, topic := range []string{"t", "u"} { // each of these polls for the first caller as well
		expectError(t, failing(func() error { return errOf(c.Pop(t.Context(), topic)) }), client.ErrEmpty)
	}
	close(goOn)
	f.waits(c, "t", 1)
	f.push("a", "t")
	expectJob(t, popped, "a")
}

// A waiting BPop gets a job behind more stale entries than one call skips.
func TestBPopWakesBehindManyStaleEntries(t *testing.T) {
	f := start(t, undivided)
	f.withoutLook(f.Client, func(round int) {
		popped := f.waiter(t.Context(), f.Client, "t")
		f.Do("EVAL", `for i = 1, 2500 do redis.call('LPUSH', KEYS[1], 'ghost') end
			redis.call('HSET', 'delayer:job_bucket:a', 'topic', 't', 'body', 'b')
			redis.call('LPUSH', KEYS[1], 'a')`, 1, "delayer:ready_queue:t")
		f.wakeAny("t") // nobody waits while a check takes its look
		expectJob(t, popped, "a")
	})
}

// A wake-up for one job claims one caller; the other callers can leave at once.
func TestOneJobClaimsOneCaller(t *testing.T) {
	f := start(t, undivided)
	f.Pop(t.Context(), "t")
	h := f.hold("t")
	c := f.on(h.Redis)
	first := f.heldWaiter(t.Context(), c, h, 0)
	ctx, cancel := context.WithCancel(t.Context())
	second := f.heldWaiter(ctx, c, h, 0)
	f.push("a", "t")
	<-h.sent
	cancel()
	expectError(t, second, context.Canceled)
	h.pass <- nil
	expectJob(t, first, "a")
}

// takesNoWrites makes Redis refuse all writes, or makes it accept them again.
func (f *fixture) takesNoWrites(refuses bool) {
	f.TB.Helper()
	replicas := 0
	if refuses {
		replicas = 1
	}
	f.Do("CONFIG", "SET", "min-replicas-to-write", replicas)
}

// If the permission for one topic is revoked, only the waits for that topic end.
func TestPermissionForOneTopicIsRevoked(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	c := f.as("u", "~* &* +@all")
	may := f.waiter(t.Context(), c, "may")
	mayNot := f.waiter(t.Context(), c, "may not")
	f.Do("ACL", "SETUSER", "u", "resetkeys", "~delayer:job_*", "~delayer:ready_queue:may")
	expectText(t, "BPop of the other", arrival(t, mayNot).err, "NOPERM")
	f.push("a", "may")
	expectJob(t, may, "a")
}
