package redistest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clustered reports whether tests run in the cluster form (REDIS_FORM=cluster), in which Open opens a Redis Cluster
// instead of a single redis-server.
var Clustered = os.Getenv("REDIS_FORM") == "cluster" || strings.Contains(External, "-cluster://")

// partitions is the number of partitions of a test in the cluster form, or if the URL of an external Redis has several. They are spread over the
// masters.
const partitions = 5

// Need is a test's requirement of its Redis.
type Need func(*needs)

type needs struct {
	alone, undivided bool
	partitions       int
	settings         []string
	standalone       string
}

// Alone is for a test that kills, hangs, fills or configures its Redis, sets users, or counts commands. In the
// cluster form the test gets its own cluster of one node.
func Alone(n *needs) { n.alone = true }

// Settings adds command-line settings to a Redis that is Alone.
func Settings(args ...string) Need {
	return func(n *needs) { n.alone, n.settings = true, append(n.settings, args...) }
}

// Undivided is for a test that checks the order of a topic's jobs, names keys, or counts a Client's calls. In the cluster form
// there is one partition, in one slot.
func Undivided(n *needs) { n.undivided = true }

// InPartitions is for a test that sets the number of partitions itself, in both forms.
func InPartitions(n int) Need { return func(needs *needs) { needs.partitions = n } }

// Standalone is for a test that makes no sense on a cluster, with the reason. It gets a single redis-server, and is
// skipped in the cluster form.
func Standalone(why string) Need { return func(n *needs) { n.standalone = why } }

// Open opens a Redis for a test: a redis-server, or in the cluster form a Redis Cluster of three masters and three replicas. All
// tests of a binary share it, each with its own Prefix, and must leave it as it is. A test that is Alone gets a redis-server, or a
// cluster of one node, of its own.
//
// If External is set, the tests share that Redis instead, and those that are Alone or Standalone are skipped.
func Open(tb testing.TB, of ...Need) *Server {
	tb.Helper()
	var n needs
	for _, need := range of {
		need(&n)
	}
	if n.standalone != "" {
		skipStandalone(tb, n.standalone)
	}
	if n.alone || n.standalone != "" {
		NotExternal(tb, ownRedis)
	}
	switch {
	case n.standalone != "" || n.alone && !Clustered:
		s := Start(tb, n.settings...)
		s.Partitions = n.partitions
		return s
	case n.alone:
		return node(tb, n.settings).of(n)
	default:
		return theBinary.open(tb, n)
	}
}

// ownRedis is why a test can't run on an external Redis.
const ownRedis = "needs a Redis of its own, which it configures, fills or stops, or whose commands it counts"

// of returns the fixture for a test's part of a cluster.
func (s *Server) of(n needs) *Server {
	s.Clustered, s.Prefix, s.Partitions, s.joined = true, randomPrefix(manySlots), partitions, true
	if n.partitions > 0 {
		s.Partitions, s.joined = n.partitions, false
	}
	if n.undivided || s.Partitions == 1 {
		s.Prefix, s.Partitions = randomPrefix(oneSlot), 1
		s.Addr = s.addrOf(s.Prefix)
	}
	return s
}

func node(tb testing.TB, settings []string) *Server {
	tb.Helper()
	if len(settings) > 0 {
		return StartNode(tb, settings...)
	}
	return theBinary.node(tb)
}

// StartNode starts a Redis Cluster of one node with the given settings.
func StartNode(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := Start(tb, append([]string{"--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(freePort(tb))}, args...)...)
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, slots-1)
	s.awaitCluster()
	return s
}

// awaitCluster waits until a node serves all slots. A new master needs two seconds.
func (s *Server) awaitCluster() {
	s.TB.Helper()
	Until(s.TB, "the node serves its slots", func() bool {
		time.Sleep(20 * time.Millisecond)
		return strings.Contains(string(s.Do("CLUSTER", "INFO").([]byte)), "cluster_state:ok")
	})
}

var standalone struct {
	sync.Mutex
	tests []string
}

func skipStandalone(tb testing.TB, why string) {
	tb.Helper()
	if !Clustered {
		return
	}
	defer tb.Skip("not on a cluster: " + why)
	standalone.Lock()
	defer standalone.Unlock()
	name, _, _ := strings.Cut(tb.Name(), "/")
	if line := name + ": " + why; !slices.Contains(standalone.tests, line) {
		standalone.tests = append(standalone.tests, line)
	}
}

// Run runs the tests of a binary and ends the shared servers. In the cluster form it prints which tests are Standalone, and
// fails if there are more than mostStandalone. On an external Redis it prints what passed.
//
// Once all tests have passed, each of the checks is made on the shared redis-server.
func Run(m *testing.M, mostStandalone int, checks ...func(shared *Server) error) (code int) {
	if External != "" {
		return runExternal(m)
	}
	code = m.Run()
	for _, check := range checks {
		if shared := theBinary.server; shared != nil && code == 0 {
			if err := check(shared); err != nil {
				fmt.Println(err)
				code = 1
			}
		}
	}
	theBinary.end()
	if !Clustered {
		return code
	}
	slices.Sort(standalone.tests)
	fmt.Printf("%d tests are skipped in the cluster form:\n  %s\n", len(standalone.tests), strings.Join(standalone.tests, "\n  "))
	if len(standalone.tests) > mostStandalone && code == 0 {
		fmt.Printf("want %d at most\n", mostStandalone)
		code = 1
	}
	return code
}
