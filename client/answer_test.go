package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// holder is a pool that keeps back the answers to pops of a topic.
type holder struct {
	*redis.Pool
	queue []byte
	jobs  bool          // queue is what names a job
	sent  chan struct{} // one for each pop whose answer is kept back
	pass  chan error    // lets one answer through, or puts an error in its place
}

func (f *fixture) hold(topic string) *holder {
	h := &holder{queue: []byte("delayer:ready_queue:" + topic + "\r"), sent: make(chan struct{}, 100), pass: make(chan error)}
	h.Pool = &redis.Pool{MaxIdle: 8, DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", f.redis.Addr)
		return redis.NewConn(&held{Conn: conn, holder: h}, 0, 0), err
	}}
	return h
}

// held is one of its connections.
type held struct {
	net.Conn
	holder *holder
	holds  atomic.Bool
}

func (c *held) Write(b []byte) (int, error) {
	looks := !c.holder.jobs && bytes.HasPrefix(b, []byte("*8\r\n")) // a pop of one topic has more arguments
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
	f.t.Helper()
	_, before := client.Callers(c, "t")
	entered := client.Entered(c, "t") // then Redis is not asked
	popped := background(func() (client.Message, error) { return c.BPop(ctx, timeout, "t") })
	if !entered {
		<-h.sent
		h.pass <- nil
	}
	f.waits(c, "t", before+1)
	return popped
}

// withoutLook repeats what must not need the look once a second, until no look
// happens to fall into it.
func (f *fixture) withoutLook(c *client.Client, what func(round int)) {
	f.t.Helper()
	const rounds = 5
	for n := range rounds {
		before := c.Looks()
		what(n)
		if c.Looks() == before {
			return
		}
	}
	f.t.Errorf("%d times out of %d it took a look", rounds, rounds)
}

// What is heard while a pop is under way is newer than its answer.
func TestHeardDuringAPop(t *testing.T) {
	f := start(t)
	h := f.hold("t")
	c := client.New(h.Pool)
	defer c.Close()
	f.Pop(t.Context(), "t") // loads the script
	f.withoutLook(c, func(round int) {
		id := fmt.Sprint(round)
		popped := f.heldWaiter(t.Context(), c, h, 0)
		f.wake("t") // another consumer has been faster
		<-h.sent
		wakes := client.Wakes(c, "t")
		f.push(id, "t")
		until(t, "the push is heard", func() bool { return client.Wakes(c, "t") > wakes })
		h.pass <- nil
		<-h.sent
		h.pass <- nil
		expectJob(t, waitFor(t, popped), id)
	})
}

// A timeout, or the end of a context, during a pop whose answer is lost says so.
func TestLeavingDuringALostPop(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	for name, cancelled := range map[string]bool{"timeout": false, "cancel": true} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			h := f.hold("t")
			c := client.New(h.Pool)
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			timeout := 300 * time.Millisecond
			if cancelled {
				timeout = 0
			}
			popped := f.heldWaiter(ctx, c, h, timeout)
			f.wake("t")
			<-h.sent
			if cancelled {
				cancel()
			}
			until(t, "the caller wants to go", func() bool { return client.Leaving(c, "t") == 1 })
			h.pass <- io.ErrUnexpectedEOF
			r := waitFor(t, popped)
			if !errors.Is(r.err, client.ErrLost) || errors.Is(r.err, client.ErrEmpty) || errors.Is(r.err, context.Canceled) != cancelled {
				t.Errorf("error %v", r.err)
			}
		})
	}
}

// A pop that was lost is not forgotten when the wait is ended later.
func TestCancelAfterALostPop(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	h := f.hold("t")
	c := client.New(h.Pool)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	popped := f.heldWaiter(ctx, c, h, 0)
	f.wake("t")
	<-h.sent
	h.pass <- io.ErrUnexpectedEOF
	f.waits(c, "t", 1)
	cancel()
	if r := waitFor(t, popped); !errors.Is(r.err, client.ErrLost) || !errors.Is(r.err, context.Canceled) {
		t.Errorf("error %v, want ErrLost and context.Canceled", r.err)
	}
}

// lateKey marks the context of a call that gets its connection late.
type lateKey struct{}

// late has the pool connect calls that are marked so only when goOn is closed; then
// closed is closed with the connection.
func (h *holder) late() (goOn, closed chan struct{}) {
	goOn, closed = make(chan struct{}), make(chan struct{})
	dial := h.DialContext
	h.MaxIdle = 0
	h.DialContext = func(ctx context.Context) (redis.Conn, error) {
		conn, err := dial(ctx)
		if ctx.Value(lateKey{}) != nil {
			<-goOn
			conn = lateConn{conn, closed}
		}
		return conn, err
	}
	return goOn, closed
}

type lateConn struct {
	redis.Conn
	closed chan struct{}
}

func (l lateConn) Close() error {
	close(l.closed)
	return l.Conn.Close()
}

// For a caller of several topics who is still without a connection when one of them is
// heard of others ask, at all of them.
func TestHeardBeforeTheFirstLook(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	h := f.hold("t")
	goOn, closed := h.late()
	c := client.New(h.Pool)
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	before := f.heldWaiter(ctx, c, h, 0) // has the topic listened to
	cancel()
	waitFor(t, before)

	ctx = context.WithValue(t.Context(), lateKey{}, true)
	popped := background(func() (client.Message, error) { return c.BPop(ctx, 0, "t", "u") })
	until(t, "the caller is there", func() bool { all, _ := client.Callers(c, "u"); return all == 1 })
	f.wake("t")
	<-h.sent
	close(goOn)
	<-closed
	h.pass <- nil
	<-h.sent // the message may be of a job that has come since
	h.pass <- nil
	f.waits(c, "u", 1)
	f.push("a", "u")
	expectJob(t, waitFor(t, popped), "a")
}

// A topic is not forgotten for a Pop that is done with it while others need it.
func TestTopicInUseIsKept(t *testing.T) {
	f := start(t)
	h := f.hold("none")
	goOn, _ := h.late()
	c := client.New(h.Pool)
	defer c.Close()
	ctx := context.WithValue(t.Context(), lateKey{}, true)
	popped := background(func() (client.Message, error) { return c.BPop(ctx, 0, "t", "u") })
	until(t, "the caller is there", func() bool { all, _ := client.Callers(c, "u"); return all == 1 })
	for _, topic := range []string{"t", "u"} { // each of these asks for the first caller, too
		r := waitFor(t, background(func() (client.Message, error) { return c.Pop(t.Context(), topic) }))
		if !errors.Is(r.err, client.ErrEmpty) {
			t.Errorf("Pop: %v, want ErrEmpty", r.err)
		}
	}
	close(goOn)
	f.waits(c, "t", 1)
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// A waiting BPop gets a job behind more stale entries than one call passes over.
func TestBPopWakesBehindManyGhosts(t *testing.T) {
	f := start(t)
	f.withoutLook(f.Client, func(round int) {
		popped := f.bpop(t.Context(), "t")
		f.do("EVAL", `for i = 1, 2500 do redis.call('LPUSH', KEYS[1], 'ghost') end
			redis.call('HSET', 'delayer:job_bucket:a', 'topic', 't', 'body', 'b')
			redis.call('LPUSH', KEYS[1], 'a')`, 1, "delayer:ready_queue:t")
		f.wake("t")
		expectJob(t, waitFor(t, popped), "a")
	})
}

// A message of one job has one of those who wait asked for; the others can leave at
// once.
func TestOneJobClaimsOneCaller(t *testing.T) {
	f := start(t)
	f.Pop(t.Context(), "t")
	h := f.hold("t")
	c := client.New(h.Pool)
	defer c.Close()
	first := f.heldWaiter(t.Context(), c, h, 0)
	ctx, cancel := context.WithCancel(t.Context())
	second := f.heldWaiter(ctx, c, h, 0)
	f.push("a", "t")
	<-h.sent
	cancel()
	if r := waitFor(t, second); !errors.Is(r.err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", r.err)
	}
	h.pass <- nil
	expectJob(t, waitFor(t, first), "a")
}

// Trouble with a pop is over when a look finds Redis well, and nothing in the queue.
func TestTroubleIsOver(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("a", "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 1500*time.Millisecond, "t") })
	f.bears(f.Client, "t")
	// In one piece, so that nobody pops in between.
	f.Conn().Send("CONFIG", "SET", "min-replicas-to-write", 0)
	f.do("DEL", "delayer:ready_queue:t")
	if r := waitFor(t, popped); !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("error %v, want ErrEmpty", r.err)
	}
}

// Troubles that are each short are borne, however long there have been some.
func TestShortTroublesAreBorne(t *testing.T) {
	t.Parallel()
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	began := time.Now()
	for range 2 {
		f.do("CLIENT", "KILL", "TYPE", "pubsub")
		until(t, "BPop listens again", func() bool { return f.waiters("t") == 1 })
		looks := f.Looks()
		until(t, "it has looked", func() bool { return f.Looks() > looks })
		until(t, "time has passed", func() bool { return time.Since(began) > client.RideOut })
	}
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")
}

// A right to one topic that is taken away ends the waits for this one only.
func TestRightToOneTopicIsTakenAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: "u", Password: "p"})
	defer c.Close()
	may := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "may") })
	mayNot := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "may not") })
	f.waits(c, "may", 1)
	f.waits(c, "may not", 1)
	f.do("ACL", "SETUSER", "u", "resetkeys", "~delayer:job_*", "~delayer:ready_queue:may")
	expectText(t, "BPop of the other", waitFor(t, mayNot).err, "NOPERM")
	f.push("a", "may")
	expectJob(t, waitFor(t, may), "a")
}

// It is over, too, when the look at another topic was the first that went well.
func TestTroubleIsOverAfterALookAtAnotherTopic(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("a", "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	popped := background(func() (client.Message, error) { return f.BPop(t.Context(), 2*time.Second, "t") })
	until(t, "a pop was refused", func() bool { return f.info("commandstats", "cmdstat_lrange:calls=") > 0 })
	f.bears(f.Client, "t")
	f.Conn().Send("CONFIG", "SET", "min-replicas-to-write", 0)
	f.do("DEL", "delayer:ready_queue:t")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f.bpop(ctx, "u")
	if r := waitFor(t, popped); !errors.Is(r.err, client.ErrEmpty) {
		t.Errorf("error %v, want ErrEmpty", r.err)
	}
}

// An empty topic does not keep a BPop of several from giving up on a Redis that
// refuses to pop from the other one.
func TestBPopOfSeveralGivesUpOnRedisThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.push("a", "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	r := waitFor(t, background(func() (client.Message, error) { return f.BPop(t.Context(), 0, "t", "u") }))
	expectText(t, "BPop", r.err, "NOREPLICAS")
}
