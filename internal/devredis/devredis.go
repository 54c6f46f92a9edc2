// Package devredis is the in-memory Redis of delayer --dev: enough of Redis to
// try Delayer out without installing one. It keeps nothing, and is slow from
// some 10,000 waiting jobs on.
package devredis

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
)

// User may log in. There is no difference between what users may do.
type User struct {
	Name     string // empty: Redis's default user
	Password string
}

// Server is a running in-memory Redis. Make one with Start, end it with Close.
type Server struct {
	// Addr is the host:port at which it takes connections.
	Addr string

	close func()
}

// Start starts an empty Redis on addr, host:port; port 0 takes a free one.
// Without users everyone may use it, else only they, from the first connection on.
func Start(addr string, users ...User) (*Server, error) {
	m := miniredis.NewMiniRedis()
	for _, u := range users {
		if u.Name == "" {
			u.Name = "default"
		}
		m.RequireUserAuth(u.Name, u.Password)
	}
	if err := m.StartAddr(addr); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k := &clock{redis: m, last: time.Now(), step: ttlStep}
	m.Server().SetPreHook(k.beforeCommand)
	var expiry sync.WaitGroup
	expiry.Go(func() { k.run(ctx) })
	return &Server{Addr: m.Addr(), close: func() {
		cancel()
		expiry.Wait()
		m.Close()
	}}, nil
}

// Close ends the server, its connections and whatever waits on them. What it
// held is gone. Call it once.
func (s *Server) Close() { s.close() }

const (
	// ttlStep is how much earlier than asked for a key may expire; where there are many keys, longestStep.
	ttlStep, longestStep = 10 * time.Millisecond, 250 * time.Millisecond
	// ttlShare keeps the work on TTLs to 1/ttlShare of the time, by longer
	// steps where there are many keys.
	ttlShare = 20
)

// clock makes time pass for the TTLs, which miniredis keeps still. Its own
// ClockTTL would be exact, but walks over all keys at each command and at each
// call in a script: with 10,000 keys 2 ms a time.
//
// TIME is never ahead of the TTLs by more than a step, be the machine as busy as it may: scripts compare the two.
type clock struct {
	redis *miniredis.Miniredis

	mu   sync.Mutex
	last time.Time // to which the TTLs are put
	step time.Duration
}

// run has the clock go on, until ctx is done.
func (k *clock) run(ctx context.Context) {
	for step := ttlStep; ; step = k.tick() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
	}
}

// tick puts the clock to now, and returns how long its step is. It makes up for lost time in small steps, as a script may run
// between the two halves of one.
func (k *clock) tick() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for now.Sub(k.last) >= k.step {
		began := time.Now()
		k.redis.FastForward(k.step)
		k.last = k.last.Add(k.step)
		k.redis.SetTime(k.last.UTC())
		k.step = min(max(ttlStep, ttlShare*time.Since(began)), longestStep)
	}
	k.redis.SetTime(now.UTC())
	return k.step
}

// beforeCommand has each command find the clock right. Within a script it stands still: then Redis is locked.
func (k *clock) beforeCommand(*server.Peer, string, ...string) bool {
	if k.redis.TryLock() {
		k.redis.Unlock()
		k.tick()
	}
	return false
}
