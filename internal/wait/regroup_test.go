package wait

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// placed is a Router that lets the test put partitions on nodes.
type placed struct {
	nodes   map[string]*redisconn.Node // by prefix
	version uint64
}

type placedSource struct {
	redisconn.Source
	router *placed
	prefix string
}

func (r *placed) At(prefix string) redisconn.Source { return placedSource{router: r, prefix: prefix} }
func (r *placed) Locate(context.Context) error      { return nil }
func (r *placed) Version() uint64                   { return r.version }
func (s placedSource) Node() *redisconn.Node        { return s.router.nodes[s.prefix] }

// Get never has a connection, so that polls stay in the queue of their node.
func (s placedSource) Get(ctx context.Context) (redis.Conn, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// put puts partition 0 on the node named by the first letter, and so on.
func (r *placed) put(known map[rune]*redisconn.Node, nodes string) {
	for i, name := range nodes {
		if known[name] == nil {
			known[name] = &redisconn.Node{Addr: string(name)}
		}
		r.nodes[fmt.Sprintf("d:{%d}:", i)] = known[name]
	}
	r.version++
}

// Partitions are grouped by node. A node that keeps the same partitions stays; any other node is replaced. Its queues
// become unknown, and its waiting polls move to the new node.
func TestRegroup(t *testing.T) {
	for _, c := range []struct{ name, from, to, replaced string }{
		{"nothing moves", "AAB", "AAB", ""},
		{"one moves", "AAB", "ABB", "012"},
		{"one moves to a new node", "AAB", "ACB", "01"},
		{"all of a node move together", "AAB", "CCB", "01"},
		{"a single one moves", "AAB", "AAC", "2"},
		{"two nodes become one", "AAB", "AAA", "012"},
	} {
		t.Run(c.name, func(t *testing.T) {
			router, known := &placed{nodes: map[string]*redisconn.Node{}}, map[rune]*redisconn.Node{}
			router.put(known, c.from)
			var stores []*store.Store
			for i := range c.from {
				stores = append(stores, store.At(router, store.KeysOf(fmt.Sprintf("d:{%d}:", i))))
			}
			closing, cancel := context.WithCancel(t.Context())
			owner := &batch.Owner{Running: new(sync.WaitGroup), Closed: errClosed}
			defer owner.Running.Wait()
			for _, s := range stores {
				s.EndWith(closing, errClosed)
			}
			defer cancel()
			d := New(closing, owner, Hooks{Logger: slog.New(slog.DiscardHandler)}, stores...)
			before := map[*partition]*node{}
			for _, s := range d.partitions {
				s.batches = batch.NewSender(owner, s.store.Pipeline, &d.mu, s.node, 0)
				s.listener.running = true // set by the test
				s.queue("t").on(empty, 0)
				s.passOn("t")
				before[s] = s.node
			}
			router.put(known, c.to)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.regroup()

			for i, s := range d.partitions {
				isReplaced := strings.Contains(c.replaced, fmt.Sprint(i))
				if (s.node != before[s]) != isReplaced || before[s].isDissolved != isReplaced {
					t.Errorf("partition %d: its node is replaced: %v, dissolved: %v, want %v", i, s.node != before[s], before[s].isDissolved, isReplaced)
				}
				if (s.queues["t"].state == registered) == isReplaced {
					t.Errorf("partition %d: its topic is in state %v", i, s.queues["t"].state)
				}
				for k, other := range d.partitions {
					if (s.node == other.node) != (c.to[i] == c.to[k]) {
						t.Errorf("partitions %d and %d share a node: %v", i, k, s.node == other.node)
					}
				}
			}
			for _, n := range d.nodes {
				if len(n.woken) == 0 {
					t.Errorf("the wake-ups of node %s are forgotten", n.id.Addr)
				}
			}
		})
	}
}
