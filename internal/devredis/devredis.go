// Package devredis is the in-memory Redis of delayer --dev: enough of Redis to
// try Delayer out without installing one. It keeps nothing, and is slow from
// some 10,000 waiting jobs on.
package devredis

import (
	"context"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
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
	var expiry sync.WaitGroup
	expiry.Go(func() { runTTLs(ctx, m) })
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
	// ttlStep is how much earlier than asked for a key may expire.
	ttlStep = 10 * time.Millisecond
	// ttlShare keeps the work on TTLs to 1/ttlShare of the time, by longer
	// steps where there are many keys.
	ttlShare = 20
)

// runTTLs, until ctx is done, makes time pass for the TTLs, which miniredis keeps still. Its own
// ClockTTL would be exact, but walks over all keys at each command and at each
// call in a script: with 10,000 keys 2 ms a time.
func runTTLs(ctx context.Context, m *miniredis.Miniredis) {
	last := time.Now()
	for step := ttlStep; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(step):
		}
		now := time.Now()
		m.FastForward(now.Sub(last))
		last = now
		step = max(ttlStep, ttlShare*time.Since(now))
	}
}
