package web

import (
	"net/netip"
	"sync"
	"time"
)

const (
	// freeGuesses is how many wrong secrets of an address are answered at once per guessTime; people mistype.
	freeGuesses = 10
	guessTime   = time.Minute
	// guessDelay is how long the answer to each further one is delayed.
	guessDelay = time.Second
	// maxGuessers is how many addresses are counted separately; the others share one count.
	maxGuessers = 4096
)

// guesses counts wrong secrets by address. Correct ones are never delayed, because behind a proxy all clients
// share an address. This slows down sequential guessing; parallel guessing is bounded by the number of
// connections.
type guesses struct {
	mu          sync.Mutex
	now, before map[netip.Addr]int
	since       time.Time
}

// add counts one wrong secret and reports whether there were too many.
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
