package main

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/server"
)

func TestBodyCarriesItsNumber(t *testing.T) {
	for _, n := range []int64{0, 7, 1792000000123456} {
		text := body(n)
		if len(text) != 56 {
			t.Errorf("%q has %d bytes", text, len(text))
		}
		if got, err := numberOf(text); got != n || err != nil {
			t.Errorf("%q: got %d, %v", text, got, err)
		}
	}
	if _, err := numberOf("short"); err == nil {
		t.Error("a short body has a number")
	}
}

func TestCrowdDoesEachOnce(t *testing.T) {
	var done [1000]atomic.Int32
	crowd(8, len(done), func(i int) error { done[i].Add(1); return nil })
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Fatalf("%d was done %d times", i, n)
		}
	}
	failure := errors.New("no")
	if err := attempt(func() { crowd(8, 1000, func(i int) error { return failure }) }); err != failure {
		t.Errorf("got %v", err)
	}
}

func TestDrainSeesDuplicates(t *testing.T) {
	var a arrivals
	a.add(body(0))
	a.add(body(0))
	if err := attempt(func() { a.drain(2, time.Second) }); err == nil {
		t.Error("a duplicate went unseen")
	}
	var b arrivals
	b.add(body(1))
	if err := attempt(func() { b.drain(2, time.Millisecond) }); err == nil {
		t.Error("a missing job went unseen")
	}
	b.add(body(0))
	b.drain(2, time.Second)
	b.add("strange")
	if err := attempt(func() { b.drain(2, time.Second) }); err == nil {
		t.Error("a strange body went unseen")
	}
}

func TestRounding(t *testing.T) {
	at := time.UnixMilli(1700000000001)
	if got := nextSecond(at); got.UnixMilli() != 1700000001000 {
		t.Errorf("got %v", got)
	}
	if got := nextSecond(time.Unix(5, 0)); got.Unix() != 5 {
		t.Errorf("got %v", got)
	}
	if got := wholeSeconds(1001 * time.Millisecond); got != 2*time.Second {
		t.Errorf("got %v", got)
	}
	if got := score(time.UnixMicro(1000001)); got != "1.001" {
		t.Errorf("got %v", got)
	}
}

// Only jobs of the backlog count.
func TestCounterCountsTheBacklog(t *testing.T) {
	c := newCounter(3)
	c.count("t", server.Moved{Jobs: 2})
	c.count(freshTopic, server.Moved{Jobs: 1})
	select {
	case <-c.done:
		t.Error("counted a fresh job")
	default:
	}
	c.count("t", server.Moved{Jobs: 1})
	select {
	case <-c.done:
	default:
		t.Errorf("counted %d", c.moved)
	}
}
