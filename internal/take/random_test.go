package take

import (
	"context"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Who has left while a take was under way does not have Redis asked again and again while that is away.
func TestWhoHasLeftDoesNotAsk(t *testing.T) {
	h := inHand(t)
	first := h.waiter("t")
	one := h.asks()
	second := h.waiter("t")
	h.leave(second.caller, context.Canceled)
	h.answer(one, store.Popped{}, errCut)
	if next := h.asks(); next != nil {
		t.Error("it is asked again at once")
	}
	first.expectWaits(t)
	second.expectErr(t, context.Canceled)
}

// A line that is not entered is looked at soon, also where the next look was not due for long.
func TestLookAfterAnError(t *testing.T) {
	h := inHand(t)
	e := h.s.ear
	h.waiter("t")
	one := h.asks()
	k := &looks{ear: e, next: time.Now().Add(slowLook), served: true, checked: time.Now()}
	h.answer(one, store.Popped{}, errCut)
	select {
	case <-e.changed:
	default:
		t.Fatal("the ear is not told")
	}
	if k.plan(); time.Until(k.next) > lookEvery {
		t.Errorf("it looks in %v", time.Until(k.next))
	}
}

// gone is a connection on which something is heard even after it was closed.
type gone struct {
	redis.Conn
	reads, closed chan struct{}
	ended         atomic.Bool
}

func (g *gone) Send(string, ...any) error { return nil }
func (g *gone) Flush() error              { return nil }
func (g *gone) Err() error                { return errCut }
func (g *gone) Close() error              { close(g.closed); return nil }
func (g *gone) Receive() (any, error)     { return g.ReceiveWithTimeout(0) }

func (g *gone) ReceiveWithTimeout(time.Duration) (any, error) {
	close(g.reads)
	<-g.closed
	for range 1000 {
		runtime.Gosched()
	}
	g.ended.Store(true)
	return nil, errCut
}

func (g *gone) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errCut }

// What is still heard on a connection is heard before its entries are void, and before Close ends.
func TestEarHearsNothingAfterItsEnd(t *testing.T) {
	h := inHand(t)
	conn := &gone{reads: make(chan struct{}), closed: make(chan struct{})}
	h.s.store = store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return conn, nil }}, store.DefaultPrefix)
	closing, cancel := context.WithCancel(t.Context())
	h.closing = closing
	go func() { <-conn.reads; cancel() }()
	h.s.ear.listen()
	if !conn.ended.Load() {
		t.Error("it still hears")
	}
}

// A take that had no room for jobs of its last topic has learned nothing of that.
func TestTopicThatATakeDidNotReach(t *testing.T) {
	h := inHand(t)
	first := h.waiter("y", "z")
	h.settle()
	h.s.ear.wake("z", 1)
	claims := h.asks()
	h.s.ear.wake("y", 1) // all its callers are claimed
	if one := h.asks(); one != nil {
		t.Fatal("it is asked for nobody")
	}
	second := h.waiter("x", "y")
	h.answer(h.asks(), store.Popped{Jobs: jobs("x", 1)}, nil)
	second.expectJob(t, "x1")
	h.answer(claims, store.Popped{Entered: true}, nil)
	one := h.asks()
	if one == nil || !slices.Equal(one.topics(), []string{"y"}) {
		t.Fatal("nobody asks for the job of y")
	}
	h.answer(one, store.Popped{Jobs: jobs("y", 1)}, nil)
	first.expectJob(t, "y1")
}
