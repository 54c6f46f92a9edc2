package redistest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// binary is the testing.TB of the whole test binary: shared servers end with it.
type binary struct {
	testing.TB
	mu       sync.Mutex
	external *external         // the Redis of make conformance
	server   *Server           // shared by tests
	cluster  *Cluster          // shared by tests in the cluster form
	owners   []owner           // of its slots
	places   map[string]string // addresses of the keys' owners, by what is before the end of their tag
	nodes    chan *Server      // unused clusters of one node

	cleaning sync.Mutex
	cleanups []func()
	over     chan struct{} // closed when no more nodes are needed
	starting sync.WaitGroup
}

var theBinary = &binary{places: map[string]string{}, over: make(chan struct{})}

// Helper implements testing.TB.
func (b *binary) Helper() {}

// Fatal implements testing.TB.
func (b *binary) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

// Fatalf implements testing.TB.
func (b *binary) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Cleanup implements testing.TB.
func (b *binary) Cleanup(f func()) {
	b.cleaning.Lock()
	defer b.cleaning.Unlock()
	b.cleanups = append(b.cleanups, f)
}

// TempDir implements testing.TB.
func (b *binary) TempDir() string {
	dir, err := os.MkdirTemp("", "redistest")
	Check(b, err)
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// end runs the cleanups.
func (b *binary) end() {
	close(b.over)
	b.starting.Wait()
	for _, f := range slices.Backward(b.cleanups) {
		f()
	}
}

// open returns the shared server or cluster, or the external one, for a test's own keys. They are deleted at its end.
func (b *binary) open(tb testing.TB, n needs) *Server {
	tb.Helper()
	s := &Server{Fixture: On(tb, b.shared(tb))}
	s.shared, s.Prefix, s.Partitions = true, randomPrefix(manySlots), n.partitions
	if External != "" {
		outcomes.open(tb)
		s.options = b.external.options
		if n.partitions == 0 && !n.undivided && b.external.divided {
			s.Partitions, s.joined = partitions, true
		}
	}
	if Clustered {
		s.binary = b
		s.of(n)
	}
	tb.Cleanup(s.Flush)
	return s
}

// shared returns the address of the shared Redis.
func (b *binary) shared(tb testing.TB) string {
	tb.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case External != "":
		if b.external == nil {
			tb.Fatal("this package needs a TestMain that calls redistest.Run")
		}
		return b.external.addr
	case Clustered:
		executable(tb)
		if b.cluster == nil {
			b.cluster = StartCluster(b)
			var err error
			b.owners, err = ownersAt(b.cluster.Servers[0].Addr, nil)
			Check(tb, err)
		}
		return b.cluster.Servers[0].Addr
	}
	executable(tb)
	if b.server == nil {
		b.server = Start(b)
	}
	return b.server.Addr
}

// The formats of a test's prefix. In a cluster the keys of a oneSlot are in one slot.
const manySlots, oneSlot = "%016x:", "{%016x}:"

// randomPrefix returns a prefix that no other test uses.
func randomPrefix(format string) string {
	prefix := fmt.Sprintf(format, rand.Uint64())
	if External != "" {
		return conformance + prefix
	}
	return prefix
}

// ownerOf returns the address of the node that has the key. Slots of the shared cluster never move.
func (b *binary) ownerOf(f *Fixture, key string) string {
	f.TB.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	tag, _, _ := strings.Cut(key, "}")
	if b.places[tag] == "" {
		conn, err := dial(f.Addr, f.options)
		Check(f.TB, err)
		defer conn.Close()
		slot, err := redis.Int(conn.Do("CLUSTER", "KEYSLOT", key))
		Check(f.TB, err)
		i := slices.IndexFunc(b.owners, func(o owner) bool { return o.first <= slot && slot <= o.last })
		b.places[tag] = b.owners[i].addr
	}
	return b.places[tag]
}

// nodesAhead is the number of nodes started in advance, because each takes two seconds until it serves its
// slots.
const nodesAhead = 6

// node gives the test a cluster of one node.
func (b *binary) node(tb testing.TB) *Server {
	tb.Helper()
	executable(tb)
	b.mu.Lock()
	if b.nodes == nil {
		b.nodes = make(chan *Server)
		for range nodesAhead {
			b.starting.Go(b.startNodes)
		}
	}
	b.mu.Unlock()
	s := <-b.nodes
	s.TB = tb
	tb.Cleanup(s.kill)
	return s
}

func (b *binary) startNodes() {
	for {
		select {
		case b.nodes <- StartNode(b):
		case <-b.over:
			return
		}
	}
}
