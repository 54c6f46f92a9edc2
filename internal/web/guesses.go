package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// freeGuesses is how many wrong secrets of an address are answered at once, in guessTime or two of it:
	// people mistype.
	freeGuesses = 10
	guessTime   = time.Minute
	// guessDelay is how long the answer to each further one takes.
	guessDelay = time.Second
	// maxGuessers is how many addresses are told apart; the others count as one.
	maxGuessers = 4096
)

// guesses count wrong secrets by address. A right one is never held up: with a proxy in front, all
// have its address. So this slows who asks one after the other; who asks with many connections at a
// time is bounded by their number only.
type guesses struct {
	mu          sync.Mutex
	now, before map[netip.Addr]int
	since       time.Time
}

// add enters one more, and reports whether there were too many.
func (g *guesses) add(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if over := time.Since(g.since); over > guessTime {
		g.before, g.now, g.since = g.now, map[netip.Addr]int{}, time.Now()
		if over > 2*guessTime {
			g.before = nil
		}
	}
	if _, ok := g.now[a]; !ok && len(g.now) >= maxGuessers {
		a = netip.Addr{}
	}
	g.now[a]++
	return g.now[a]+g.before[a] > freeGuesses
}
