package client

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// What a queue is believed to have after a pop: what was heard while that was
// under way is newer than its answer.
func TestLearn(t *testing.T) {
	popped := func(n int, more bool) store.Popped { return store.Popped{Jobs: make([]store.Job, n), More: more} }
	for _, c := range []struct {
		name         string
		ready, heard int // after the pop was sent
		delayed      bool
		popped       store.Popped
		err          error
		want         int
	}{
		{name: "as many as were asked for", ready: 5, popped: popped(3, false), want: 2},
		{name: "as many as were believed", ready: 3, popped: popped(3, false), want: 0},
		{name: "fewer than asked for", ready: 3, popped: popped(2, false), want: 0},
		{name: "none", ready: 3, want: 0},
		{name: "stopped early", ready: 0, popped: popped(2, true), want: 1},
		{name: "failed", ready: 3, err: errors.New("cut"), want: 0},
		{name: "heard meanwhile, as many as were asked for", ready: 1, heard: 1, popped: popped(3, false), want: 1},
		{name: "heard meanwhile, none", ready: 1, heard: 1, want: 1},
		{name: "heard meanwhile, failed", ready: 1, heard: 1, err: errors.New("cut"), want: 1},
		{name: "heard meanwhile, a pop will be made soon", ready: 1, heard: 1, delayed: true, want: 0},
	} {
		q := &topicQueue{ready: c.ready, heard: c.heard, delayed: c.delayed}
		if q.learn(len(c.popped.Jobs), c.popped.More, c.err, 3, 0); q.ready != c.want {
			t.Errorf("%s: %d jobs are believed to be there, want %d", c.name, q.ready, c.want)
		}
	}
}

// A caller for whom a pop is under way is not ended by another one, be it that
// that fails: it would get a job and not be there.
func TestClaimedCallerIsNotEndedByAnotherPop(t *testing.T) {
	c := New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("none") }})
	ts := c.topics
	tq, uq := ts.queue(topicKey{c.partitions[0], "t"}, kind{}), ts.queue(topicKey{c.partitions[0], "u"}, kind{})
	tq.underWay, uq.underWay = 1, 1 // the test makes the pops
	join := func(names ...string) (*caller, chan answer) {
		answers := make(chan answer, 1)
		c := &caller{request: request{names: names, n: 1, stays: true}, answer: func(a answer) { answers <- a }}
		if ask, err := ts.join(c); ask != nil || err != nil {
			t.Fatal(ask != nil, err)
		}
		return c, answers
	}
	for range store.MaxPop {
		join("t")
	}
	tq.callers.Front().Value.(*caller).asks = 0 // it waits: others ask each queue by itself
	last, answers := join("u", "t")
	n, popOfT := tq.next()
	m, popOfU := uq.next()
	if n != store.MaxPop || m != 1 || !last.claimed {
		t.Fatal(n, m, last.claimed)
	}
	popOfT(nil, redis.Error("WRONGTYPE ready queue t is a string, not a list"))
	if len(answers) > 0 {
		t.Fatalf("it was ended while a pop is under way for it: %v", (<-answers).err)
	}
	popOfU(nil, errors.New("cut"))
	if err := (<-answers).err; err == nil {
		t.Error("it was not told of the error")
	}
}
