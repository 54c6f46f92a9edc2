package main

import (
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
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
	d := newDrain(2)
	d.take(body(0))
	d.take(body(0))
	d.take(body(1))
	if err := attempt(func() { d.wait(time.Second) }); err == nil {
		t.Error("a duplicate went unseen")
	}
	d = newDrain(2)
	d.take(body(1))
	if err := attempt(func() { d.wait(time.Millisecond) }); err == nil {
		t.Error("a missing job went unseen")
	}
	d.take(body(0))
	d.wait(time.Second)
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

// ids are IDs as in a server's log.
type ids []string

func (list ids) Bytes() (all [][]byte) {
	for _, id := range list {
		all = append(all, []byte(id))
	}
	return all
}

func TestCounterCountsIDs(t *testing.T) {
	c := newCounter(3)
	log := slog.New(c)
	log.Info("Job is ready", "topic", "t", "ids", ids{"a", "b"})
	log.Info("something else")
	log.Info("Job is ready", "topic", freshTopic, "ids", ids{"x"})
	log.Info("Job is ready", "topic", "t", "ids", ids{"c"}, "partition", 3)
	select {
	case <-c.done:
	default:
		t.Errorf("counted %d", c.moved)
	}
}
