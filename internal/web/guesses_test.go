package web

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// Each address has some free guesses. Further guesses are reported until the time is over. Other addresses
// are unaffected, and the number of stored addresses is bounded.
func TestGuesses(t *testing.T) {
	var g guesses
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for n := range freeGuesses + 2 {
		if got, want := g.add(a), n >= freeGuesses; got != want {
			t.Errorf("guess %d: too many is %v, want %v", n+1, got, want)
		}
	}
	if g.add(b) {
		t.Error("another address is one too many")
	}
	g.since = g.since.Add(-guessTime)
	if !g.add(a) {
		t.Error("a minute later all is forgotten")
	}
	g.since = g.since.Add(-2 * guessTime)
	if g.add(a) {
		t.Error("two minutes later nothing is forgotten")
	}
	for n := range 2 * maxGuessers {
		g.add(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}))
	}
	if len(g.now) > maxGuessers+1 {
		t.Errorf("%d addresses are kept", len(g.now))
	}
	if !g.add(b.Next()) {
		t.Error("addresses that can't be told apart are not counted together")
	}
}

// Repeated wrong secrets are answered slowly, counted and logged. A correct one is never delayed, even from
// the same address.
func TestGuessing(t *testing.T) {
	l := newLimited(t, 100)
	lines := make(chan string, 9)
	spare := NewSparing(func(line string) { lines <- line })
	spare.every = time.Hour // keeps the timer from writing another line
	f := New(Options{Token: token, Limit: l.Limited, Spare: spare}, area("/x"))
	background(t, f, l)
	began := time.Now()
	var last net.Conn
	for n := range freeGuesses + 1 {
		last = l.send("127.0.0.2", "/x", fmt.Sprintf("Authorization: Bearer wrong%d\r\n", n))
		if n < freeGuesses {
			l.answered(last, 401)
		}
	}
	l.answered(l.send("127.0.0.2", "/x", bearer), 200)
	l.answered(last, 401)
	if took := time.Since(began); took < guessDelay {
		t.Errorf("all answers took %v", took)
	}
	l.answered(l.send("127.0.0.2", "/x"), 401) // a request without a secret is not a guess
	if c := f.Counts(); c.Refused[refusedSecret] != freeGuesses+1 || c.Refused[refusedNoSecret] != 1 || c.Requests[Answered{"/x", 401}] != freeGuesses+2 {
		t.Errorf("%+v", c)
	}
	spare.again(refusedSecret)
	want := []string{"a wrong token or password was shown, from 127.0.0.2", fmt.Sprintf("a wrong token or password was shown, from 127.0.0.2: %d more times within 1h", freeGuesses)}
	if got := []string{<-lines, <-lines}; !slices.Equal(got, want) || len(lines) > 0 {
		t.Errorf("got %q and %d more, want %q", got, len(lines), want)
	}
}
