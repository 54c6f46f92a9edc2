package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// blockFor is how long one blocking command waits; a topic nobody waits
	// for any more keeps its connection for so long.
	blockFor = 5 * time.Second
	// pollEvery is how often a queue is looked at that can't be waited for.
	pollEvery = 50 * time.Millisecond
	// maxBlocking is how many topics of one Client are waited for on
	// connections of their own; further ones are polled.
	maxBlocking = 64
	// rideOut is for how long BPop bears Redis being away.
	rideOut = 3 * time.Second
)

// waits are the callers who wait, by topic. Each topic has one watch, which
// waits for its queue, takes for its callers in the order in which they came,
// and ends when they are gone.
type waits struct {
	client *Client

	mu       sync.Mutex
	watches  map[string]*watch
	blocking int // watches with a connection, or dialling one
	closed   bool
}

type watch struct {
	waits   *waits
	topic   string
	callers []*caller  // guarded by waits.mu
	conn    redis.Conn // guarded by waits.mu; nil while there is none
	failing time.Time  // since when nothing works; zero if it does; written under waits.mu
	retry   time.Duration
}

// join lets the caller wait for any of the topics. trouble is why its own look
// at them failed, or nil.
func (ws *waits) join(c *caller, topics []string, trouble error) error {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return ErrClosed
	}
	if ws.watches == nil {
		ws.watches = map[string]*watch{}
	}
	for _, topic := range topics {
		w := ws.watches[topic]
		if w == nil {
			if err := ws.client.begin(context.Background()); err != nil {
				return err
			}
			w = &watch{waits: ws, topic: topic, retry: firstRetry}
			if trouble != nil {
				w.failing = time.Now()
			}
			ws.watches[topic] = w
			go w.run()
		}
		if !w.failing.IsZero() {
			c.note(trouble)
		}
		w.callers = append(w.callers, c)
	}
	return nil
}

// leave ends the caller's wait.
func (ws *waits) leave(c *caller, topics []string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, topic := range topics {
		if w := ws.watches[topic]; w != nil {
			w.callers = slices.DeleteFunc(w.callers, func(other *caller) bool { return other == c })
		}
	}
}

// close ends all waits with ErrClosed.
func (ws *waits) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	for _, w := range ws.watches {
		for _, c := range w.callers {
			c.offer(store.Taken{}, ErrClosed)
		}
		w.callers = nil
		if w.conn != nil {
			w.conn.Close() // ends the blocking command
		}
	}
}

// run serves the topic's callers until there are none.
func (w *watch) run() {
	defer w.waits.client.running.Done()
	for w.wanted() {
		pause, err := w.turn()
		w.report(err)
		if err != nil {
			w.hangUp()
			pause, w.retry = w.retry, min(2*w.retry, lastRetry)
		}
		w.sleep(pause)
	}
}

// turn waits for the queue once and serves the callers. It returns how long to pause
// before the next turn.
func (w *watch) turn() (time.Duration, error) {
	if !w.failing.IsZero() {
		// Look first: trouble that is over must not become the answer of
		// callers whose time ends while we wait.
		if err := w.serve(); err != nil {
			return 0, err
		}
		w.report(nil)
	}
	ready, err := w.block()
	switch {
	case store.CannotWait(err):
		return pollEvery, w.serve()
	case err != nil || !ready:
		return 0, err
	}
	return 0, w.serve()
}

// wanted reports whether anybody waits; if not, the watch is over.
func (w *watch) wanted() bool {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	if len(w.callers) > 0 {
		return true
	}
	w.hangUpLocked()
	delete(w.waits.watches, w.topic)
	return false
}

// errTooMany stands for Redis's refusal to wait where we refuse ourselves.
var errTooMany = redis.Error("OOM too many topics are waited for")

// block waits until the queue has an entry, and reports whether it has.
func (w *watch) block() (bool, error) {
	if w.conn == nil {
		if err := w.dial(); err != nil {
			return false, err
		}
	}
	return w.waits.client.store.Wait(w.conn, w.topic, blockFor)
}

func (w *watch) dial() error {
	ws := w.waits
	if !ws.reserve() {
		return errTooMany
	}
	conn, err := ws.client.store.Dial(ws.client.closing)
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if err == nil && ws.closed {
		conn.Close()
		err = ErrClosed
	}
	if err != nil {
		ws.blocking--
		return err
	}
	w.conn = conn
	return nil
}

// reserve counts one more connection, unless there are enough.
func (ws *waits) reserve() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.blocking >= maxBlocking {
		return false
	}
	ws.blocking++
	return true
}

func (w *watch) hangUp() {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	w.hangUpLocked()
}

func (w *watch) hangUpLocked() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
		w.waits.blocking--
	}
}

// serve takes jobs and hands them to the callers until either run out.
func (w *watch) serve() error {
	for {
		callers := w.first()
		if len(callers) == 0 {
			return nil
		}
		left, err := w.waits.client.serve(w.topic, callers)
		if len(left) == 0 {
			continue
		}
		if errors.Is(err, ErrEmpty) {
			return nil
		}
		return err
	}
}

// first are the callers who wait, up to as many as one take serves.
func (w *watch) first() []*caller {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	w.callers = slices.DeleteFunc(w.callers, (*caller).isSettled)
	return slices.Clone(w.callers[:min(len(w.callers), maxJobs)])
}

// report tells the callers how the waiting goes. An error that won't pass ends
// their wait; one that may, when it has lasted.
func (w *watch) report(err error) {
	if err == nil && w.failing.IsZero() {
		return
	}
	now := time.Now()
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	switch {
	case err == nil:
		w.failing, w.retry = time.Time{}, firstRetry
	case w.failing.IsZero():
		w.failing = now
	}
	w.callers = slices.DeleteFunc(w.callers, func(c *caller) bool {
		c.note(err)
		if err == nil || store.Temporary(err) && (now.Sub(w.failing) < rideOut || now.Sub(c.joined) < rideOut) {
			return false
		}
		c.offer(store.Taken{}, err)
		return true
	})
}

func (w *watch) sleep(d time.Duration) {
	if d == 0 {
		return
	}
	select {
	case <-time.After(d):
	case <-w.waits.client.closing.Done():
	}
}
