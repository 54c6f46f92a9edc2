package client

import (
	"errors"
	"testing"

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
		if q.learn(c.popped, c.err, 3, 0); q.ready != c.want {
			t.Errorf("%s: %d jobs are believed to be there, want %d", c.name, q.ready, c.want)
		}
	}
}
