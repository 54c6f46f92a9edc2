package redistest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// binary is the testing.TB of the whole test binary: shared servers end with it.
type binary struct {
	testing.TB
	mu      sync.Mutex
	server  *Server           // shared by tests
	cluster *Cluster          // shared by tests in the cluster form
	owners  map[string]string // addresses of the keys' owners, by prefix
	nodes   chan *Server      // unused clusters of one node

	cleaning sync.Mutex
	cleanups []func()
	over     chan struct{} // closed when no more nodes are needed
	starting sync.WaitGroup
}

var theBinary = &binary{owners: map[string]string{}, over: make(chan struct{})}

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

// share returns the shared server, for a test's own keys. They are deleted at its end.
func (b *binary) share(tb testing.TB, n needs) *Server {
	tb.Helper()
	executable(tb)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.server == nil {
		b.server = Start(b)
	}
	f := On(tb, b.server.Addr)
	f.shared, f.Partitions, f.Prefix = true, n.partitions, fmt.Sprintf("%016x:", rand.Uint64())
	tb.Cleanup(f.Flush)
	return &Server{Fixture: f}
}

// open returns the shared cluster.
func (b *binary) open(tb testing.TB) *Server {
	tb.Helper()
	executable(tb)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cluster == nil {
		b.cluster = StartCluster(b)
	}
	f := On(tb, b.cluster.Servers[0].Addr)
	f.shared, f.binary = true, b
	return &Server{Fixture: f}
}

// ownerOf returns the address of the node that has the key. Slots of the shared cluster never move.
func (b *binary) ownerOf(key string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	prefix, _, _ := strings.Cut(key, "}")
	if b.owners[prefix] == "" {
		b.owners[prefix] = b.cluster.Owner(b.cluster.Slot(key)).Addr
	}
	return b.owners[prefix]
}

// addrs returns the addresses of the masters.
func (b *binary) addrs() (addrs []string) {
	for _, s := range b.cluster.Servers[:3] {
		addrs = append(addrs, s.Addr)
	}
	return addrs
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
