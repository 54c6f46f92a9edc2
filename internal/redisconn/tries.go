package redisconn

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"time"
)

// Backoff is the pause before the next try of something that fails: it doubles each time. The zero Backoff begins anew.
type Backoff time.Duration

// Next returns the next pause: first to begin with, then twice the one before, but no more than last.
func (b *Backoff) Next(first, last time.Duration) time.Duration {
	*b = Backoff(min(max(2*time.Duration(*b), first), last))
	return time.Duration(*b)
}

// Wait waits for the next pause, and reports whether ctx has not ended by then.
func (b *Backoff) Wait(ctx context.Context, first, last time.Duration) bool {
	return sleep(ctx, b.Next(first, last))
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Tries are tries of a call that a cluster refuses for now. They go on until a time is over.
type Tries struct {
	end   time.Time
	pause Backoff
}

// NewTries begins tries that may go on for that long.
func NewTries(most time.Duration) *Tries { return &Tries{end: time.Now().Add(most)} }

// Wait waits for the next try, and reports whether there is time for it.
func (t *Tries) Wait(ctx context.Context) bool {
	pause := t.pause.Next(5*time.Millisecond, 200*time.Millisecond)
	pause = pause/2 + rand.N(pause) // calls that were refused together do not come again together
	return !time.Now().Add(pause).After(t.end) && sleep(ctx, pause)
}

// Within returns ctx, ended when the time is over.
func (t *Tries) Within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(ctx, t.end)
}

// Reminder limits how often something is said about a key, such as a topic. The zero Reminder is ready.
type Reminder struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// IsDue reports whether nothing was said about the key for that long, and notes that something is said now.
func (r *Reminder) IsDue(key string, every time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.said, func(_ string, at time.Time) bool { return now.Sub(at) >= every })
	if _, recently := r.said[key]; recently {
		return false
	}
	if r.said == nil {
		r.said = map[string]time.Time{}
	}
	r.said[key] = now
	return true
}

// Forget is for a key about which nothing was said after all.
func (r *Reminder) Forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.said, key)
}
