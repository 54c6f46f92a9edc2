package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/redistest"
)

// lengths are those of the topics' queues, as a Look finds them.
func (b *backend) lengths(t *testing.T, topics []string) ([]int, error) {
	t.Helper()
	p, err := b.Pipeline(t.Context())
	if err != nil {
		return nil, err
	}
	defer p.Close()
	looked, err := p.Look(LookAt{Topics: topics})
	return looked.Lengths, err
}

// A look counts the entries of many queues, in their order, in scripts that are each bounded.
func TestReady(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const topics = 2*maxLook + 1
		names, want := make([]string, topics), make([]int, topics)
		for n := range names {
			names[n] = fmt.Sprint("t", n)
		}
		for _, full := range [][]int{{}, {0}, {maxLook - 1, maxLook}, {topics - 1}} {
			b.seed(t)
			clear(want)
			for _, n := range full {
				want[n] = n%3 + 1
				for i := range want[n] {
					b.do(t, "LPUSH", "delayer:ready_queue:"+names[n], i)
				}
			}
			before := b.state(t)
			var got []int
			var err error
			look := func() { got, err = b.lengths(t, names) }
			if b.Mini {
				look()
			} else {
				for _, line := range b.monitor(t, look) {
					if n := strings.Count(line, "delayer:ready_queue:"); n > maxLook {
						t.Errorf("one command looks at %d queues", n)
					}
				}
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("entries in %v: got %v, %v", full, got, err)
			}
			b.expect(t, before)
		}
	})
}

// A queue that can't be read counts as one that has a job, so that a pop tells why; the others of
// the same look are counted.
func TestReadyOfABrokenQueue(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, text("ready_queue:broken"), entry("a", "t"), entry("b", "t"))
		got, err := b.lengths(t, []string{"broken", "t", "empty"})
		if err != nil || !slices.Equal(got, []int{1, 2, 0}) {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

// A server that takes no writes does not say that a queue is empty, nor that a lease is lost: it may not
// know of a job.
func TestEmptyQueueOfAReplica(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t)
	gone := Held{"t", "gone", 1}
	lost := func(errs []error, err error) error {
		if err == nil && !errors.Is(errs[0], ErrLeaseLost) {
			t.Errorf("error %v, want that the lease is lost", errs[0])
		}
		return err
	}
	ask := map[string]func(p *Pipeline) error{
		"Pop":     func(p *Pipeline) error { _, err := p.Pop([]string{"t", "u"}, 1); return err },
		"Reserve": func(p *Pipeline) error { _, err := p.Reserve([]string{"t"}, []int{1}, 1, Reservation{}); return err },
		"Look":    func(p *Pipeline) error { _, err := p.Look(LookAt{Topics: []string{"t"}}); return err },
		// Nor does it know whether a lease is lost.
		"Ack":   func(p *Pipeline) error { return lost(p.Ack([]Held{gone})) },
		"Retry": func(p *Pipeline) error { return lost(p.Retry([]Returned{{Held: gone}})) },
		"Bury":  func(p *Pipeline) error { return lost(p.Bury([]Burial{{Held: gone}})) },
		"Extend": func(p *Pipeline) error {
			_, err := p.Extend([]Extension{{gone, time.Minute}})
			return err
		},
	}
	for _, state := range []struct {
		reason string
		seed   []command
		change []any
	}{
		{"", nil, []any{"REPLICAOF", "NO", "ONE"}},
		{"READONLY", nil, []any{"REPLICAOF", "127.0.0.1", 1}},
		{"READONLY", text("ready_queue:t"), []any{"REPLICAOF", "127.0.0.1", 1}},
		{"MASTERDOWN", nil, []any{"CONFIG", "SET", "replica-serve-stale-data", "no"}},
		{"NOREPLICAS", nil, []any{"CONFIG", "SET", "min-replicas-to-write", 1}},
	} {
		b.do(t, "REPLICAOF", "NO", "ONE")
		b.seed(t, state.seed)
		if state.reason == "MASTERDOWN" {
			b.do(t, "REPLICAOF", "127.0.0.1", 1)
		}
		b.do(t, state.change[0].(string), state.change[1:]...)
		for name, call := range ask {
			p, err := b.Pipeline(t.Context())
			check(t, err)
			if err := call(p); state.reason == "" && err != nil || state.reason != "" && !begins(err, state.reason) {
				t.Errorf("%s: %v, want %q", name, err, state.reason)
			}
			if p.Replaced() != (state.reason != "") {
				t.Errorf("%s, %s: another server was tried: %v", name, state.reason, p.Replaced())
			}
			p.Close()
		}
	}
	server.Do("CONFIG", "SET", "min-replicas-to-write", 0)
	b.expect(t, redistest.State{})
}
