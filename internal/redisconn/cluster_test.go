package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// oneNode returns a cluster of one node.
func oneNode(t *testing.T) *redistest.Server {
	t.Helper()
	redistest.Long(t)
	s := redistest.Start(t, "--cluster-enabled", "yes")
	s.Do("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
	redistest.Until(t, "the cluster is well", func() bool { return strings.Contains(string(s.Do("CLUSTER", "INFO").([]byte)), "cluster_state:ok") })
	return s
}

func clusterOf(seeds ...string) *Cluster {
	return NewCluster(seeds, timeouts, func(d Dialer) *redis.Pool {
		return &redis.Pool{MaxIdle: 2, MaxActive: 2, Wait: true, DialContext: d.Dial, TestOnBorrowContext: CheckRested}
	})
}

// Slots of one node share its pool and its limits, and the node is asked once for the owners of slots.
func TestSlotsShareANode(t *testing.T) {
	t.Parallel()
	s := oneNode(t)
	c := clusterOf("127.0.0.1:1", s.Addr)
	defer c.Close()
	before := s.Connections()
	var all sync.WaitGroup
	for _, prefix := range []string{"d:{0}:", "d:{1}:", "d:{2}:", "d:{3}:", "{d}:"} {
		all.Go(func() {
			slot := NewSource(c).Of(prefix)
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
			if addr, err := slot.Addr(t.Context()); !slot.Sharded() || addr != s.Addr {
				t.Errorf("the node is %s, %v, or its version is not known", addr, err)
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
}

// All connections end with the Cluster, and none is opened after that.
func TestClosedCluster(t *testing.T) {
	t.Parallel()
	s := oneNode(t)
	before := s.Connections()
	c := clusterOf(s.Addr)
	slot := NewSource(c).Of("{d}:")
	idle, err := slot.Get(t.Context())
	redistest.Check(t, err)
	own, err := slot.Dial(t.Context())
	redistest.Check(t, err)
	defer own.Close()
	idle.Close()
	redistest.Check(t, c.Close())
	redistest.Until(t, "all connections are closed", func() bool { return s.Connections() == before })
	_, err = slot.Get(t.Context())
	expectError(t, err, "are closed")
}

// If no node answers, the error says so at once, for each.
func TestNoNodeAnswers(t *testing.T) {
	t.Parallel()
	c := clusterOf("127.0.0.1:1", "127.0.0.1:2")
	defer c.Close()
	_, err := NewSource(c).Of("{d}:").Get(t.Context())
	expectError(t, err, "no node of the cluster responds: 127.0.0.1:1: dial", "; 127.0.0.1:2: dial")
}

// A node that refuses our password is named. The addresses with which the pool was opened would mislead.
func TestNodeWithAnotherPassword(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	cluster := redistest.StartCluster(t)
	other := cluster.Servers[1]
	other.Do("CONFIG", "SET", "requirepass", "other")
	c := clusterOf(cluster.Servers[0].Addr)
	defer c.Close()
	for prefix := 0; ; prefix++ {
		slot := NewSource(c).Of(fmt.Sprintf("d:{%d}:", prefix))
		conn, err := slot.Get(t.Context())
		if addr, _ := slot.Addr(t.Context()); addr == other.Addr {
			expectError(t, err, "node "+other.Addr+": NOAUTH")
			_, err = slot.Dial(t.Context())
			expectError(t, err, "node "+other.Addr+": NOAUTH")
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

// However many calls hear that a slot has moved, the nodes are asked a few times a second at most.
func TestMovedInARow(t *testing.T) {
	t.Parallel()
	s := oneNode(t)
	c := clusterOf(s.Addr)
	defer c.Close()
	slot := NewSource(c).Of("{d}:")
	_, err := slot.Addr(t.Context())
	redistest.Check(t, err)
	began := time.Now()
	for range 1000 {
		slot.Moved(":" + s.Addr[strings.LastIndex(s.Addr, ":")+1:]) // as a node says that does not know its host
		if addr, err := slot.Addr(t.Context()); addr != s.Addr {
			t.Fatalf("the owner is %s, %v, want %s", addr, err, s.Addr)
		}
		time.Sleep(100 * time.Microsecond)
	}
	if n, most := s.Calls("cluster|slots"), 2+int(time.Since(began)/askEvery); n < 2 || n > most {
		t.Errorf("the node was asked %d times, want %d at most", n, most)
	}
}

// The owners that nodes report, in every form in which they name them.
func TestAddresses(t *testing.T) {
	t.Parallel()
	owner := func(host any, more ...any) []any {
		return []any{int64(0), int64(1), append([]any{host, int64(7000)}, more...)}
	}
	for _, c := range []struct {
		says []any
		want string
	}{
		{owner([]byte("10.0.0.1")), "10.0.0.1:7000"},
		{owner([]byte("::1")), "[::1]:7000"},
		{owner([]byte("node.example")), "node.example:7000"},
		{owner([]byte("")), "asked.example:7000"},
		{owner(nil), "asked.example:7000"},
		{owner([]byte("?"), []byte("id"), []any{[]byte("ip"), []byte("10.0.0.1")}), "10.0.0.1:7000"},
		{owner([]byte("?"), []byte("id"), []any{[]byte("ip"), []byte("")}), "asked.example:7000"},
		{owner([]byte("?"), []byte("id"), []any{}), "asked.example:7000"},
		{owner([]byte("?")), "asked.example:7000"},
	} {
		if r, _, err := readRange(c.says, "asked.example:6379"); err != nil || r.owner != c.want {
			t.Errorf("%q: %s, %v, want %s", c.says, r.owner, err, c.want)
		}
	}
	for addr, want := range map[string]string{
		"10.0.0.1:7000": "10.0.0.1:7000", "::1:7000": "[::1]:7000", "[::1]:7000": "[::1]:7000", "fe80::1%eth0:7000": "[fe80::1%eth0]:7000",
		":7000": "10.0.0.9:7000", "?:7000": "10.0.0.9:6379", "nonsense": "10.0.0.9:6379",
	} {
		c := clusterOf("127.0.0.1:1")
		c.take([]slotRange{{first: 0, last: 16383, owner: "10.0.0.9:6379"}}, true, time.Now())
		slot := NewSource(c).Of("{d}:")
		slot.Moved(addr)
		if got, err := slot.Addr(t.Context()); got != want || err != nil {
			t.Errorf("MOVED to %s: the owner is %s, %v, want %s", addr, got, err, want)
		}
		c.Close()
	}
}

// A connection to a server that is loading its data is usable: its commands can be repeated.
func TestDialWhileLoading(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--enable-debug-command", "local", "--loading-process-events-interval-bytes", "1024")
	s.Do("EVAL", `for i = 1, 2000 do redis.call('SET', 'key' .. i, string.rep('x', 1024)) end`, 0)
	s.Do("CONFIG", "SET", "key-load-delay", 5000)
	other := redistest.On(t, s.Addr)
	reloads := other.Conn()
	reloads.Send("DEBUG", "RELOAD")
	reloads.Flush()
	redistest.Until(t, "it loads", func() bool { return s.InfoNumber("persistence", "loading") == 1 })
	d := timeouts
	d.Locator = Fixed(s.Addr)
	conn, err := d.Dial(t.Context())
	redistest.Check(t, err)
	defer conn.Close()
	if _, err := conn.Do("GET", "key1"); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
		t.Errorf("it loads, and answers %v", err)
	}
}

// A node that has been away for RetryWindow is tried by one call at a time. Others get its error, whatever their partitions.
func TestNodeThatIsAway(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := clusterOf(s.Addr)
	defer c.Close()
	c.take([]slotRange{{last: 16383, owner: s.Addr}}, true, time.Now())
	slot, other := NewSource(c).Of("{d}:"), NewSource(c).Of("{e}:")
	n, err := c.owner(t.Context(), slot.slot)
	redistest.Check(t, err)
	n.failing, n.err, n.dials = time.Now().Add(-RetryWindow), errors.New("it hangs"), 1
	_, err = other.Get(t.Context())
	expectError(t, err, "it hangs")
	n.dials = 0
	for _, of := range []*Source{slot, other} {
		conn, err := of.Get(t.Context())
		redistest.Check(t, err)
		defer conn.Close()
	}
}
