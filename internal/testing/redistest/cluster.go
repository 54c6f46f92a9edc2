package redistest

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Cluster is a Redis Cluster.
type Cluster struct {
	TB      testing.TB
	Servers []*Server // three masters, then their replicas

	args []string // settings of each server
	cert *certificate
	hung *Server
}

// slots is the number of hash slots.
const slots = 16384

// StartCluster starts three masters with a replica each, and waits until they serve all slots. Before Kill or Hang the nodes
// never consider a node dead, however slow the machine is. args are further settings.
func StartCluster(tb testing.TB, args ...string) *Cluster {
	tb.Helper()
	return start(&Cluster{TB: tb, args: args})
}

func start(c *Cluster) *Cluster {
	c.TB.Helper()
	for i := range 6 {
		s := c.start()
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < 3 {
			s.Do("CLUSTER", "ADDSLOTSRANGE", slots*i/3, slots*(i+1)/3-1)
		}
		c.meet(s)
	}
	c.await("all know each other", func(s *Server) bool { return strings.Count(c.nodes(s), "\n") == 6 })
	for i, master := range c.Servers[:3] {
		c.Servers[3+i].Do("CLUSTER", "REPLICATE", id(master))
	}
	c.AwaitHealth()
	return c
}

func (c *Cluster) start() *Server {
	c.TB.Helper()
	args := c.args
	if c.cert != nil {
		args = append(args, c.cert.args(freePort(c.TB))...)
	}
	s := Start(c.TB, append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "15000", "--cluster-port", fmt.Sprint(freePort(c.TB)),
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1", "--cluster-replica-validity-factor", "0"}, args...)...)
	c.Servers = append(c.Servers, s)
	return s
}

// meet introduces the server to the first one.
func (c *Cluster) meet(s *Server) {
	c.TB.Helper()
	if first := c.Servers[0]; s != first {
		host, port, _ := net.SplitHostPort(first.Addr)
		bus := first.Strings("CONFIG", "GET", "cluster-port")[1]
		s.Do("CLUSTER", "MEET", host, port, bus)
	}
}

// Addrs returns the addresses of the servers.
func (c *Cluster) Addrs() (addrs []string) {
	for _, s := range c.Servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

func (c *Cluster) nodes(s *Server) string {
	c.TB.Helper()
	return string(s.Do("CLUSTER", "NODES").([]byte))
}

func id(s *Server) string { s.TB.Helper(); return string(s.Do("CLUSTER", "MYID").([]byte)) }

// alive returns the servers that answer.
func (c *Cluster) alive() (alive []*Server) {
	for _, s := range c.Servers {
		if s.cmd != nil && s != c.hung {
			alive = append(alive, s)
		}
	}
	return alive
}

// await waits until a condition holds for all running servers.
func (c *Cluster) await(what string, is func(s *Server) bool) {
	c.TB.Helper()
	Until(c.TB, what, func() bool { return !slices.ContainsFunc(c.alive(), func(s *Server) bool { return !is(s) }) })
}

// AwaitHealth waits until all slots are served, all running servers agree, and all replicas have caught up.
func (c *Cluster) AwaitHealth() {
	c.TB.Helper()
	c.await("the cluster is well", func(s *Server) bool {
		if !strings.Contains(string(s.Do("CLUSTER", "INFO").([]byte)), "cluster_state:ok") {
			return false
		}
		replication := string(s.Do("INFO", "replication").([]byte))
		return strings.Contains(replication, "role:master") || strings.Contains(replication, "master_link_status:up")
	})
	c.await("all agree who owns what", func(s *Server) bool { return c.owners(s) == c.owners(c.alive()[0]) })
}

// owners returns the slot map of the given server.
func (c *Cluster) owners(s *Server) string {
	c.TB.Helper()
	var owners []string
	ranges, err := redis.Values(s.Do("CLUSTER", "SLOTS"), nil)
	Check(c.TB, err)
	for _, r := range ranges {
		parts := r.([]any)
		master := parts[2].([]any)
		owners = append(owners, fmt.Sprintf("%d-%d %s:%d", parts[0], parts[1], master[0], master[1]))
	}
	slices.Sort(owners)
	return strings.Join(owners, "\n")
}

// Slot returns the hash slot of a key.
func (c *Cluster) Slot(key string) int {
	c.TB.Helper()
	return int(c.alive()[0].Do("CLUSTER", "KEYSLOT", key).(int64))
}

// Owner returns the server that owns the slot, as seen by the others.
func (c *Cluster) Owner(slot int) *Server {
	c.TB.Helper()
	for _, s := range c.alive() {
		owners := c.owners(s)
		for line := range strings.Lines(owners) {
			var first, last int
			var addr string
			fmt.Sscanf(line, "%d-%d %s", &first, &last, &addr)
			_, port, _ := net.SplitHostPort(addr)
			if i := slices.IndexFunc(c.Servers, func(s *Server) bool { return strings.HasSuffix(s.Addr, ":"+port) }); first <= slot && slot <= last && i >= 0 {
				return c.Servers[i]
			}
		}
	}
	c.TB.Fatalf("nobody owns slot %d", slot)
	return nil
}

// Move is the migration of a slot.
type Move struct {
	c        *Cluster
	Slot     int
	From, To *Server
}

// BeginMove begins the migration of a slot.
func (c *Cluster) BeginMove(slot int, to *Server) *Move {
	c.TB.Helper()
	m := &Move{c, slot, c.Owner(slot), to}
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", id(m.From))
	m.From.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	return m
}

// Keys migrates up to n keys, and reports whether there may be more.
func (m *Move) Keys(n int) bool {
	m.c.TB.Helper()
	keys := m.From.Strings("CLUSTER", "GETKEYSINSLOT", m.Slot, n)
	if len(keys) > 0 {
		m.Key(keys...)
	}
	return len(keys) == n
}

// Key migrates the given keys.
func (m *Move) Key(keys ...string) {
	m.c.TB.Helper()
	host, port, _ := net.SplitHostPort(m.To.Addr)
	if m.c.cert != nil {
		port = m.To.Strings("CONFIG", "GET", "tls-port")[1]
	}
	m.From.Do("MIGRATE", redis.Args{host, port, "", 0, 5000, "KEYS"}.AddFlat(keys)...)
}

// End migrates the remaining keys, and gives the slot to its new owner.
func (m *Move) End() {
	m.c.TB.Helper()
	for m.Keys(100) {
	}
	for _, s := range []*Server{m.To, m.From} {
		s.Do("CLUSTER", "SETSLOT", m.Slot, "NODE", id(m.To))
	}
}

// MoveSlot migrates a slot.
func (c *Cluster) MoveSlot(slot int, to *Server) { c.TB.Helper(); c.BeginMove(slot, to).End() }

// Failover makes the replica take over from its master, and waits until it has done so.
func (c *Cluster) Failover(replica *Server) {
	c.TB.Helper()
	// An attempt may fail within 5 s. The next election comes after four times the node timeout.
	timeout, _ := redis.Strings(replica.Do("CONFIG", "GET", "cluster-node-timeout"), nil)
	defer c.setNodeTimeout(timeout[1])
	c.setNodeTimeout("1500")
	var asked time.Time
	Until(c.TB, "the replica is the master", func() bool {
		if time.Since(asked) > 6*time.Second {
			asked = time.Now()
			replica.Do("CLUSTER", "FAILOVER")
		}
		return strings.Contains(string(replica.Do("INFO", "replication").([]byte)), "role:master")
	})
}

// Kill kills a server. From then on the others consider a node dead after a second without an
// answer.
func (c *Cluster) Kill(s *Server) {
	c.TB.Helper()
	c.setNodeTimeout("1000")
	s.Kill()
}

// Hang is like Kill, but the server answers again after Continue.
func (c *Cluster) Hang(s *Server) {
	c.TB.Helper()
	c.setNodeTimeout("1000")
	c.hung = s
	s.Hang()
}

// Continue ends a Hang.
func (c *Cluster) Continue() {
	c.TB.Helper()
	c.hung.Continue()
	c.hung = nil
}

func (c *Cluster) setNodeTimeout(ms string) {
	c.TB.Helper()
	for _, s := range c.alive() {
		s.Do("CONFIG", "SET", "cluster-node-timeout", ms)
	}
}

// AwaitOwner waits until a server other than not owns the slot, and returns the new owner.
func (c *Cluster) AwaitOwner(slot int, not *Server) (owner *Server) {
	c.TB.Helper()
	Until(c.TB, "another server owns the slot", func() bool {
		owner = c.Owner(slot)
		return owner != not
	})
	return owner
}

// AddNode adds a master without slots.
func (c *Cluster) AddNode() *Server {
	c.TB.Helper()
	s := c.start()
	c.meet(s)
	c.await("all know the new node", func(of *Server) bool { return strings.Contains(c.nodes(of), id(s)) })
	c.AwaitHealth()
	return s
}
