package redisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// RetryWindow is how long a call waits for what a cluster cannot do now: a slot moves, or a replica is about to become
	// the master.
	RetryWindow = 3 * time.Second
	// askEvery is how often the nodes are asked who owns which slot, at most.
	askEvery = 100 * time.Millisecond
)

// Cluster is a Redis Cluster. It finds the node that owns a slot, as Sentinel finds a master: it asks the nodes, and again once MOVED, or a connection
// that breaks, says that owners may have changed. Slots of one node share its pool, of which nothing outside knows.
type Cluster struct {
	dialer  Dialer // its Locator is not used
	newPool func(Dialer) *redis.Pool
	seeds   []string
	guides  guides  // the seeds, and all nodes with slots
	conns   guarded // to nodes with slots

	mu      sync.Mutex
	nodes   map[string]*node // by their addresses
	owned   []slotRange      // the first one that has a slot counts
	learned time.Time        // when the nodes were asked that last said so
	sharded bool             // see Source.Sharded
	began   time.Time        // the last inquiry
	asking  *inquiry         // under way, or nil
	next    *inquiry         // not begun yet, or nil
	closed  bool
}

type slotRange struct {
	first, last int
	owner       string
	moved       time.Time // when MOVED said so; zero if CLUSTER SLOTS did
}

// inquiry asks the nodes who owns which slot.
type inquiry struct {
	began time.Time
	ended chan struct{}
	err   error
}

// NewCluster makes the Cluster whose nodes are found at those addresses. newPool makes each node's pool.
func NewCluster(seeds []string, d Dialer, newPool func(Dialer) *redis.Pool) *Cluster {
	return &Cluster{dialer: d, newPool: newPool, seeds: seeds, guides: newGuides(seeds, d), nodes: map[string]*node{}}
}

var errClosed = errors.New("the cluster's connections are closed")

// Close closes all connections. Calls that come later fail.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed, c.owned = true, nil
	c.leave()
	return nil
}

// leave closes all connections to nodes without slots, and forgets their pools. These stay open: redigo's may panic when they are closed under a call.
// c.mu must be held.
func (c *Cluster) leave() {
	maps.DeleteFunc(c.nodes, func(addr string, _ *node) bool { return !c.owns(addr) })
	for _, conn := range c.conns.but(c.owns) {
		conn.Close()
	}
}

func (c *Cluster) eachNode(ctx context.Context, do func(addr string) error) error {
	failures, found := c.guides.each(ctx, func(addr string) error {
		if err := do(addr); err != nil {
			return fmt.Errorf("%s: %w", addr, err)
		}
		return nil
	})
	if found {
		return nil
	}
	return joined(errors.New("no node of the cluster responds"), failures)
}

// owner returns the node that owns the slot. It asks who does if nobody has ever said so.
func (c *Cluster) owner(ctx context.Context, slot int) (*node, error) {
	if err := c.learn(ctx, time.Time{}); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	addr := c.ownerOf(slot)
	if addr == "" {
		c.inquire()
		return nil, redis.Error(fmt.Sprintf("CLUSTERDOWN no node owns slot %d", slot))
	}
	n := c.nodes[addr]
	if n == nil {
		n = &node{cluster: c, addr: addr}
		d := c.dialer
		d.Locator = n
		n.pool = c.newPool(d)
		c.nodes[addr] = n
	}
	return n, nil
}

// ownerOf returns the address of the node that owns the slot, "" if that is not known. c.mu must be held.
func (c *Cluster) ownerOf(slot int) string {
	for _, r := range c.owned {
		if r.first <= slot && slot <= r.last {
			return r.owner
		}
	}
	return ""
}

// owns reports whether the node of that address owns a slot. c.mu must be held.
func (c *Cluster) owns(addr string) bool {
	return slices.ContainsFunc(c.owned, func(r slotRange) bool { return r.owner == addr })
}

// moved takes in that the owner of the slot has said who owns it now: host:port, where the host may be an IPv6 address without brackets, or :port on
// its own host. If that node has no name, the address is missing; then another node must be asked.
func (c *Cluster) moved(slot int, addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inquire()
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 || addr[:colon] == unnamed {
		return
	}
	addr = address(strings.Trim(addr[:colon], "[]"), addr[colon+1:], c.ownerOf(slot))
	c.guides.rank(addr, true)
	c.owned = slices.DeleteFunc(c.owned, func(r slotRange) bool { return r.first == slot && !r.moved.IsZero() })
	c.owned = slices.Insert(c.owned, 0, slotRange{slot, slot, addr, time.Now()})
}

// learn waits until the nodes have been asked, after that moment, who owns which slot.
func (c *Cluster) learn(ctx context.Context, since time.Time) error {
	c.mu.Lock()
	q := c.asking
	switch {
	case c.closed:
		c.mu.Unlock()
		return errClosed
	case c.learned.After(since):
		c.mu.Unlock()
		return nil
	case q == nil || !q.began.After(since): // its answer may be older
		q = c.inquire()
	}
	c.mu.Unlock()
	select {
	case <-q.ended:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// learnSoon makes the Cluster ask the nodes.
func (c *Cluster) learnSoon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inquire()
}

// inquire returns the inquiry that begins next. Thousands of calls may want one: they are made one at a time, askEvery apart. c.mu must be held.
func (c *Cluster) inquire() *inquiry {
	if c.next == nil && !c.closed {
		c.next = &inquiry{ended: make(chan struct{})}
		go c.run(c.next, c.asking, c.began.Add(askEvery))
	}
	return c.next
}

// run makes the inquiry, after the one before and not earlier than that.
func (c *Cluster) run(q, before *inquiry, earliest time.Time) {
	if before != nil {
		<-before.ended
	}
	time.Sleep(time.Until(earliest))
	c.mu.Lock()
	q.began = time.Now()
	c.asking, c.next, c.began = q, nil, q.began
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), RetryWindow)
	defer cancel()
	q.err = c.eachNode(ctx, func(addr string) error { return c.ask(ctx, addr, q.began) })
	c.mu.Lock()
	c.asking = nil
	c.mu.Unlock()
	close(q.ended)
}

// ask asks a node who owns which slot.
func (c *Cluster) ask(ctx context.Context, addr string, began time.Time) error {
	list, err := redis.Values(c.guides.ask(ctx, addr, "CLUSTER", "SLOTS"))
	if err != nil {
		return err
	}
	var owned []slotRange
	sharded := false
	for _, item := range list {
		r, named, err := readRange(item, addr)
		if err != nil {
			return fmt.Errorf("it answers CLUSTER SLOTS with %.200s", fmt.Sprint(item))
		}
		owned, sharded = append(owned, r), named > 3
	}
	if len(owned) == 0 {
		return errors.New("it knows no owners of slots")
	}
	c.take(owned, sharded, began)
	return nil
}

// take takes in what a node said that was asked at that moment. What MOVED has said since counts.
func (c *Cluster) take(owned []slotRange, sharded bool, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	rand.Shuffle(len(owned), func(i, j int) { owned[i], owned[j] = owned[j], owned[i] }) // a node may be behind: each is asked now and then
	newer := slices.DeleteFunc(c.owned, func(r slotRange) bool { return !r.moved.After(asked) })
	c.owned, c.sharded, c.learned = append(newer, owned...), sharded, asked
	var addrs []string
	for _, r := range c.owned {
		addrs = append(addrs, r.owner)
	}
	c.guides.set(append(addrs, c.seeds...))
	c.leave()
}

// readRange reads {first, last, {host, port, …}, replicas …}. named counts what is said of the owner: 4 values from Redis 7.0
// on, of which the last may have the IP address of a host without a name. An owner without a host is on the host of the
// node that was asked.
func readRange(item any, asked string) (r slotRange, named int, err error) {
	var master []any
	parts, err := redis.Values(item, nil)
	if err == nil {
		_, err = redis.Scan(parts, &r.first, &r.last, &master)
	}
	var host string
	var port int
	if err == nil {
		_, err = redis.Scan(master, &host, &port)
	}
	if host == unnamed && len(master) > 3 {
		more, _ := redis.StringMap(master[3], nil)
		host = more["ip"]
	}
	r.owner = address(host, strconv.Itoa(port), asked)
	return r, len(master), err
}

// unnamed is the host of a node that is to be known by its name and has none.
const unnamed = "?"

func address(host, port, other string) string {
	if host == "" || host == unnamed {
		host, _, _ = net.SplitHostPort(other)
	}
	return net.JoinHostPort(host, port)
}

// node is a node with slots, and the Locator of its pool. Cluster.mu guards what changes.
type node struct {
	cluster *Cluster
	addr    string
	pool    *redis.Pool
	failing time.Time // since when it can't be reached; zero if it can
	err     error     // why
	dials   int       // under way
}

// isAway reports whether the node could not be reached for RetryWindow, and no call waits for it any more. One at a time tries it, and others get its
// error: a try of a node that hangs takes seconds, and many slots on it may be in use. Cluster.mu must be held.
func (n *node) isAway() bool { return !n.failing.IsZero() && time.Since(n.failing) >= RetryWindow }

// mayComeBack reports whether the node can't be reached, and a call should wait: a replica may take its place.
func (n *node) mayComeBack() bool {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	return !n.failing.IsZero() && !n.isAway()
}

// Locate implements Locator.
func (n *node) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if n.isAway() && n.dials > 0 {
		return nil, n.err
	}
	n.dials++
	n.cluster.mu.Unlock()
	began := time.Now()
	conn, err := dial(ctx, n.addr)
	n.cluster.mu.Lock()
	n.dials--
	switch {
	case err == nil:
		n.failing = time.Time{}
	case errors.As(err, new(redis.Error)): // as that of a node with another password; the network's errors have the address
		n.failing, err = time.Time{}, fmt.Errorf("node %s: %w", n.addr, err)
	case errors.Is(ctx.Err(), context.Canceled):
	default:
		if !IsOver(ctx) {
			n.err = err
			if n.failing.IsZero() {
				n.failing = began
			}
		}
		n.cluster.inquire() // also if the caller was in a hurry: all may be
	}
	return conn, err
}

// Guard implements Locator. The connection is closed once the node has no slots, whoever waits on it: a node that hangs says nothing. If it breaks, a
// replica may have become the master.
func (n *node) Guard(_ string, conn net.Conn) net.Conn {
	n.cluster.mu.Lock()
	defer n.cluster.mu.Unlock()
	if !n.cluster.owns(n.addr) {
		conn.Close()
		return conn
	}
	return n.cluster.conns.add(n.addr, conn, n.cluster.learnSoon)
}
