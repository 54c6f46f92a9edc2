package redispool

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// oneNode is a cluster of one node.
func oneNode(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, "--cluster-enabled", "yes")
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	redistest.Until(t, "the cluster is well", func() bool {
		return strings.Contains(string(s.Do("CLUSTER", "INFO").([]byte)), "cluster_state:ok")
	})
	return s
}

func clusterPool(seeds ...string) *redis.Pool {
	return NewCluster(seeds, timeouts, func(d Dialer) *redis.Pool {
		return &redis.Pool{MaxIdle: 2, MaxActive: 2, Wait: true, DialContext: d.Dial, TestOnBorrowContext: CheckRested}
	})
}

// Slots of one node share its pool and that one's limits, and the node is asked once who owns what.
func TestSlotsShareANode(t *testing.T) {
	t.Parallel()
	s := oneNode(t)
	pool := clusterPool("127.0.0.1:1", s.Addr)
	defer Close(pool)
	before := s.Connections()
	var all sync.WaitGroup
	for _, prefix := range []string{"d:{0}:", "d:{1}:", "d:{2}:", "d:{3}:", "{d}:"} {
		all.Go(func() {
			slot := On(pool, prefix)
			for range 20 {
				conn, err := slot.Get(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := conn.Do("SET", prefix+"key", "v"); err != nil {
					t.Error(err)
				}
				conn.Close()
			}
			if !slot.(*Slot).Sharded() || slot.Node() != On(pool, "d:{0}:").Node() {
				t.Error("the node, or its version, is not known")
			}
		})
	}
	all.Wait()
	if n := s.Connections() - before; n > 2 {
		t.Errorf("there are %d connections, want 2", n)
	}
	if n := s.Calls("cluster|slots"); n != 1 {
		t.Errorf("it was asked %d times who owns what, want once", n)
	}
	expectError(t, func() error { _, err := On(pool, "d:").Get(t.Context()); return err }(), "CROSSSLOT", "want partitions, such as 16")
}

// Connections to nodes end with the pool that stands for the cluster, be it closed by us or by somebody who knows nothing of nodes.
func TestClosedCluster(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*redis.Pool) error{"by us": Close, "by its owner": (*redis.Pool).Close} {
		t.Run(name, func(t *testing.T) {
			s := oneNode(t)
			before := s.Connections()
			pool := clusterPool(s.Addr)
			slot := On(pool, "{d}:")
			idle, err := slot.Get(t.Context())
			redistest.Check(t, err)
			own, err := slot.Dial(t.Context())
			redistest.Check(t, err)
			defer own.Close()
			idle.Close()
			redistest.Check(t, end(pool))
			redistest.Until(t, "all connections are closed", func() bool { return s.Connections() == before })
			_, err = slot.Get(t.Context())
			expectError(t, err, "is closed")
		})
	}
}

// Where no node answers the error says so at once, of each.
func TestNoNodeAnswers(t *testing.T) {
	t.Parallel()
	pool := clusterPool("127.0.0.1:1", "127.0.0.1:2")
	defer Close(pool)
	_, err := On(pool, "{d}:").Get(t.Context())
	expectError(t, err, "no node of the cluster answers: 127.0.0.1:1: dial", "; 127.0.0.1:2: dial")
}

// However many are told that a slot has moved, the nodes are asked a few times a second at most.
func TestMovedInARow(t *testing.T) {
	t.Parallel()
	s := oneNode(t)
	pool := clusterPool(s.Addr)
	defer Close(pool)
	slot := On(pool, "{d}:").(*Slot)
	_, err := slot.owner(t.Context())
	redistest.Check(t, err)
	began := time.Now()
	for range 1000 {
		slot.Moved(slot.slot, ":"+s.Addr[strings.LastIndex(s.Addr, ":")+1:]) // as a node says that does not know its host
		if addr := slot.cluster.owner(slot.slot).addr; addr != s.Addr {
			t.Fatalf("the owner is %s, want %s", addr, s.Addr)
		}
		time.Sleep(100 * time.Microsecond)
	}
	if n, most := s.Calls("cluster|slots"), 2+int(time.Since(began)/askEvery); n < 2 || n > most {
		t.Errorf("the node was asked %d times, want %d at most", n, most)
	}
}

// A cluster whose pool nobody has any more is forgotten.
func TestForgottenCluster(t *testing.T) {
	key := func() weak.Pointer[redis.Pool] {
		pool := clusterPool("127.0.0.1:1")
		if clusterOf(pool) == nil {
			t.Fatal("it stands for no cluster")
		}
		return weak.Make(pool)
	}()
	redistest.Until(t, "it is forgotten", func() bool {
		runtime.GC()
		_, known := clusters.Load(key)
		return !known
	})
}
