package redisconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
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

// Cluster is a Redis Cluster: the Router of its slots. It keeps which node owns which slot, and has a pool for each
// node that it needs. It asks the nodes anew, one at a time, when an answer says, or a connection that breaks may mean,
// that the owners have changed.
type Cluster struct {
	dialer  Dialer // opens connections to nodes; its Locator is not used
	newPool func(Dialer) *redis.Pool
	seeds   []string
	asking  SingleFlight // asks the nodes

	mu      sync.Mutex
	nodes   map[string]*Node // by their addresses
	owned   []slotRange      // in their order
	moved   map[int]move     // what was said since
	version uint64           // see Router
	first   string           // who is asked first, as it was named last; "" for none
	asked   time.Time        // when they were asked last who answered
	sharded bool             // see Slot.Sharded
	soon    bool             // somebody is about to ask
	closed  bool
}

type slotRange struct {
	first, last int
	owner       string
}

// move is what MOVED says of a slot.
type move struct {
	owner string
	at    time.Time
}

// NewCluster makes the Cluster whose nodes are found at those addresses. newPool makes each node's pool.
func NewCluster(seeds []string, d Dialer, newPool func(Dialer) *redis.Pool) *Cluster {
	return &Cluster{dialer: d, newPool: newPool, seeds: seeds, nodes: map[string]*Node{}, moved: map[int]move{}}
}

var errClosed = errors.New("the cluster's connections are closed")

// Close closes all connections. Calls that come later fail.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.version++
	for _, n := range c.nodes {
		c.leave(n)
	}
	return nil
}

// leave closes all connections to the node. Its pool stays open: redigo's may panic when they are closed under a call. mu must be held.
func (c *Cluster) leave(n *Node) {
	n.left = true
	delete(c.nodes, n.Addr)
	n.drop(func(*nodeConn) bool { return true })
}

// GetContext opens a connection to some node that answers.
func (c *Cluster) GetContext(ctx context.Context) (conn redis.Conn, err error) {
	if c.isClosed() {
		return nil, errClosed
	}
	err = c.eachNode(ctx, func(addr string) error {
		d := c.dialer
		d.Locator = Fixed(addr)
		conn, err = d.Dial(ctx)
		return err
	})
	return conn, err
}

func (c *Cluster) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// At returns the slot of the tag in the prefix.
func (c *Cluster) At(prefix string) Source {
	if tag, found := tagIn(prefix); found {
		return &Slot{cluster: c, slot: SlotOf(tag)}
	}
	return c.noSlot(prefix)
}

// Version implements Router.
func (c *Cluster) Version() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version
}

// Locate asks the nodes who owns which slot, unless any has ever told.
func (c *Cluster) Locate(ctx context.Context) error {
	c.mu.Lock()
	known := len(c.owned) > 0
	c.mu.Unlock()
	if known {
		return nil
	}
	return c.learn(ctx, time.Time{})
}

func (c *Cluster) eachNode(ctx context.Context, do func(addr string) error) error {
	failed, separator := errors.New("no node of the cluster answers"), ":"
	for _, addr := range c.addrs() {
		err := do(addr)
		if err == nil {
			return nil
		}
		failed = fmt.Errorf("%w%s %s: %w", failed, separator, addr, err) // one line
		separator = ";"
		if ctx.Err() != nil {
			break
		}
	}
	return failed
}

// addrs returns the addresses of all known nodes, first of the one that was named last, and then the seeds.
func (c *Cluster) addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []string
	if c.first != "" {
		addrs = append(addrs, c.first)
	}
	for _, i := range rand.Perm(len(c.owned)) {
		addrs = append(addrs, c.owned[i].owner)
	}
	addrs = append(addrs, c.seeds...)
	seen := map[string]bool{}
	return slices.DeleteFunc(addrs, func(addr string) bool {
		again := seen[addr]
		seen[addr] = true
		return again
	})
}

// learn asks the nodes who owns which slot, unless that was done since.
func (c *Cluster) learn(ctx context.Context, since time.Time) error {
	for !c.lastAsked().After(since) { // an answer that was on its way may be older
		if err := c.asking.Do(ctx, func() error { return c.askOne(ctx) }); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) lastAsked() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// askOne asks the first node that answers, if need be after a pause.
func (c *Cluster) askOne(ctx context.Context) error {
	select {
	case <-time.After(time.Until(c.lastAsked().Add(askEvery))):
	case <-ctx.Done():
		return ctx.Err()
	}
	began := time.Now()
	return c.eachNode(ctx, func(addr string) error {
		owned, sharded, err := c.ask(ctx, addr)
		if err == nil {
			c.learned(owned, sharded, began)
		}
		return err
	})
}

// learnSoon makes somebody ask the nodes, and does not wait for it. mu must be held.
func (c *Cluster) learnSoon() {
	if c.soon || c.closed {
		return
	}
	c.soon = true
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), RetryWindow)
		defer cancel()
		since := time.Now()
		c.mu.Lock()
		c.soon = false
		c.mu.Unlock()
		c.learn(ctx, since)
	}()
}

func (c *Cluster) ask(ctx context.Context, addr string) (owned []slotRange, sharded bool, err error) {
	d := c.dialer
	d.Locator = Fixed(addr)
	d = d.within(askWithin)
	conn, err := d.Dial(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	list, err := redis.Values(redis.DoContext(conn, ctx, "CLUSTER", "SLOTS"))
	if err != nil {
		return nil, false, err
	}
	for _, item := range list {
		r, named, err := readRange(item, addr)
		if err != nil {
			return nil, false, fmt.Errorf("it answers CLUSTER SLOTS with %.200s", fmt.Sprint(item))
		}
		owned = append(owned, r)
		sharded = named > 3
	}
	if len(owned) == 0 {
		return nil, false, errors.New("it knows no owners of slots")
	}
	slices.SortFunc(owned, func(a, b slotRange) int { return cmp.Compare(a.first, b.first) })
	return owned, sharded, nil
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

// learned notes what a node has said that was asked at that moment.
func (c *Cluster) learned(owned []slotRange, sharded bool, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned, c.sharded, c.asked, c.first = owned, sharded, asked, ""
	c.version++
	maps.DeleteFunc(c.moved, func(_ int, m move) bool { return m.at.Before(asked) })
	for addr, n := range c.nodes {
		if c.owns(addr) {
			n.drop(func(conn *nodeConn) bool { return conn.slot != nil && c.ownerOf(*conn.slot) != addr })
		} else {
			c.leave(n)
		}
	}
}

func (c *Cluster) owns(addr string) bool {
	for _, m := range c.moved {
		if m.owner == addr {
			return true
		}
	}
	return slices.ContainsFunc(c.owned, func(r slotRange) bool { return r.owner == addr })
}

// ownerOf is the address of the node that owns the slot, "" if that is not known.
func (c *Cluster) ownerOf(slot int) string {
	if m, ok := c.moved[slot]; ok {
		return m.owner
	}
	i, _ := slices.BinarySearchFunc(c.owned, slot, func(r slotRange, slot int) int { return cmp.Compare(r.last, slot) })
	if i < len(c.owned) && c.owned[i].first <= slot {
		return c.owned[i].owner
	}
	return ""
}

func (c *Cluster) owner(slot int) *Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	addr := c.ownerOf(slot)
	if addr == "" || c.closed {
		return nil
	}
	n := c.nodes[addr]
	if n == nil {
		n = &Node{Addr: addr, cluster: c, conns: map[*nodeConn]bool{}}
		d := c.dialer
		d.Locator = toNode{n, nil}
		n.pool = Pool{c.newPool(d)}
		c.nodes[addr] = n
	}
	return n
}
