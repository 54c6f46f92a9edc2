package client

import (
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
	blocking int // watches with a connection
	closed   bool
}

type watch struct {
	waits   *waits
	topic   string
	callers []*caller  // guarded by waits.mu
	conn    redis.Conn // guarded by waits.mu; nil while there is none
	failing time.Time  // since when nothing works; zero if it does
}

// join lets the caller wait for any of the topics.
func (ws *waits) join(c *caller, topics []string) error {
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
			if !ws.client.begin() {
				return ErrClosed
			}
			w = &watch{waits: ws, topic: topic}
			ws.watches[topic] = w
			go w.run()
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
	defer w.waits.client.background.Done()
	retry := firstRetry
	for w.wanted() {
		pause := time.Duration(0)
		ready, err := w.block()
		if store.CannotWait(err) {
			ready, err, pause = true, nil, pollEvery
		}
		if ready && err == nil {
			err = w.serve()
		}
		w.report(err)
		if err == nil {
			retry = firstRetry
		} else {
			w.hangUp()
			retry, pause = min(2*retry, lastRetry), retry
		}
		w.sleep(pause)
	}
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
	ws.mu.Lock()
	tooMany := ws.blocking >= maxBlocking
	ws.mu.Unlock()
	if tooMany {
		return errTooMany
	}
	conn, err := ws.client.store.Dial(ws.client.closing)
	if err != nil {
		return err
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		conn.Close()
		return ErrClosed
	}
	w.conn = conn
	ws.blocking++
	return nil
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
	c := w.waits.client
	for w.anybody() {
		taken, err := c.take(c.closing, []string{w.topic})
		if errors.Is(err, ErrEmpty) {
			return nil
		}
		if err != nil {
			return err
		}
		if !w.hand(taken) {
			c.restore(taken)
		}
	}
	return nil
}

func (w *watch) anybody() bool {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	return len(w.callers) > 0
}

// hand gives the job to the first caller who accepts it.
func (w *watch) hand(taken store.Taken) bool {
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
	for len(w.callers) > 0 {
		first := w.callers[0]
		w.callers = w.callers[1:]
		if first.offer(taken, nil) {
			return true
		}
	}
	return false
}

// report tells the callers how the waiting goes. An error that won't pass ends
// their wait; one that may, when it has lasted.
func (w *watch) report(err error) {
	now := time.Now()
	switch {
	case err == nil && w.failing.IsZero():
		return
	case err == nil:
		w.failing = time.Time{}
	case w.failing.IsZero():
		w.failing = now
	}
	w.waits.mu.Lock()
	defer w.waits.mu.Unlock()
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
