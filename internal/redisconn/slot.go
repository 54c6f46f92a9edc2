package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Slot is the Source of what is in one slot of a cluster: the node that owns it.
type Slot struct {
	cluster *Cluster
	slot    int
	refusal error // why its keys can't be used: a prefix without a tag has keys in many slots
	unknown Node  // stands for the owner as long as that is not known
}

func (c *Cluster) noSlot(prefix string) *Slot {
	return &Slot{cluster: c, slot: -1, refusal: redis.Error(fmt.Sprintf("CROSSSLOT keys that begin with %.200q are in many slots of a cluster; want partitions, such as 16, "+
		"or a prefix with a tag, such as {delayer}:, here and in all clients", prefix))}
}

// Get implements Source. While the owner can't be reached it is tried again, for RetryWindow at most, as long as
// others answer: one of them is about to take its place.
func (s *Slot) Get(ctx context.Context) (conn redis.Conn, err error) {
	err = s.ride(ctx, func(n *Node) error {
		conn, err = n.pool.Get(ctx)
		return err
	})
	return conn, err
}

// GetUntried implements Source.
func (s *Slot) GetUntried(ctx context.Context) (conn redis.Conn, rested bool, err error) {
	err = s.ride(ctx, func(n *Node) error {
		conn, rested, err = n.pool.GetUntried(ctx)
		return err
	})
	return conn, rested, err
}

func (s *Slot) ride(ctx context.Context, get func(*Node) error) error {
	for tries := NewTries(RetryWindow); ; {
		n, err := s.owner(ctx)
		if err != nil {
			return err
		}
		asked := time.Now()
		err = get(n)
		if err == nil || ctx.Err() != nil || errors.As(err, new(redis.Error)) {
			return err
		}
		if s.cluster.learn(ctx, asked) != nil || !tries.Wait(ctx) {
			return err
		}
	}
}

// Dial implements Source. The connection is closed once another node owns the slot.
func (s *Slot) Dial(ctx context.Context) (redis.Conn, error) {
	n, err := s.owner(ctx)
	if err != nil {
		return nil, err
	}
	d := s.cluster.dialer
	d.Locator = toNode{n, &s.slot}
	conn, err := d.Dial(ctx)
	if err != nil && ctx.Err() == nil {
		s.learnSoon()
	}
	return conn, err
}

// Node implements Source. As long as the owner is not known the slot shares its node with no other one.
func (s *Slot) Node() *Node {
	if n := s.cluster.owner(s.slot); n != nil {
		return n
	}
	return &s.unknown
}

func (s *Slot) owner(ctx context.Context) (*Node, error) {
	if s.refusal != nil {
		return nil, s.refusal
	}
	if s.cluster.isClosed() {
		return nil, errClosed
	}
	for _, since := range []time.Time{{}, time.Now()} {
		if n := s.cluster.owner(s.slot); n != nil {
			return n, nil
		}
		if err := s.cluster.learn(ctx, since); err != nil {
			return nil, err
		}
	}
	if n := s.cluster.owner(s.slot); n != nil {
		return n, nil
	}
	return nil, redis.Error(fmt.Sprintf("CLUSTERDOWN no node owns slot %d", s.slot))
}

// Moved notes that the owner of this slot has said who owns another slot, or this one: host:port, where the host may be an IPv6
// address without brackets, or :port on its own host. If that node has no name, the address is missing; then another node must be asked.
func (s *Slot) Moved(slot int, addr string) {
	c := s.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learnSoon()
	colon := strings.LastIndexByte(addr, ':')
	if colon < 0 || addr[:colon] == unnamed {
		return
	}
	addr = address(strings.Trim(addr[:colon], "[]"), addr[colon+1:], c.ownerOf(s.slot))
	c.moved[slot] = move{addr, time.Now()}
	c.version++
	c.first = addr
}

func (s *Slot) learnSoon() {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	s.cluster.learnSoon()
}

// Sharded reports whether the nodes know the channels of slots, SPUBLISH and SSUBSCRIBE, as they do from Redis 7.0 on. It is
// known once there was a connection.
func (s *Slot) Sharded() bool {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	return s.cluster.sharded
}

const slots = 16384

// TagOf is the part of a key that says which slot it is in: what stands between the first { and the next }, or,
// if that is nothing, all of it (Redis Cluster Specification, "Hash tags").
func TagOf(key string) string {
	if tag, found := tagIn(key); found {
		return tag
	}
	return key
}

func tagIn(key string) (tag string, found bool) {
	_, behind, _ := strings.Cut(key, "{")
	tag, _, closed := strings.Cut(behind, "}")
	return tag, closed && tag != ""
}

// CRC16 is the checksum that Redis Cluster uses: CRC-16/XMODEM, with the polynomial 0x1021, from 0 on.
func CRC16(text string) (sum uint16) {
	for i := range len(text) {
		sum = sum<<8 ^ crc16Table[byte(sum>>8)^text[i]]
	}
	return sum
}

var crc16Table = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum&0x8000 != 0
			if sum <<= 1; carry {
				sum ^= 0x1021
			}
		}
		table[i] = sum
	}
	return table
}()

// SlotOf is the slot that a key is in.
func SlotOf(key string) int { return int(CRC16(TagOf(key))) % slots }

// Node is a server that connections lead to. Sources that have the same Node now may share connections.
type Node struct {
	Addr string // host:port of a cluster's node; empty where there is no cluster, or as long as the node is not known

	// Cluster.mu guards what changes.
	cluster *Cluster
	pool    Pool
	conns   map[*nodeConn]bool
	left    bool
}

type nodeConn struct {
	net.Conn
	node *Node
	slot *int // the connection is useful only as long as the node owns this slot; nil for any
}

type toNode struct {
	*Node
	slot *int
}

// Locate implements Locator.
func (t toNode) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	conn, err := dial(ctx, t.Addr)
	if errors.As(err, new(redis.Error)) { // as that of a node with another password; the network's errors have the address
		err = fmt.Errorf("node %s: %w", t.Addr, err)
	}
	return conn, err
}

// Guard implements Locator. The connection is closed once it is useless, whoever waits on it: a node that hangs says nothing.
func (t toNode) Guard(_ string, conn net.Conn) net.Conn {
	c := &nodeConn{conn, t.Node, t.slot}
	t.cluster.mu.Lock()
	defer t.cluster.mu.Unlock()
	if t.left {
		conn.Close()
		return conn
	}
	t.conns[c] = true
	return c
}

// Read makes the cluster ask who owns what if the connection breaks: a replica may have become the master.
func (c *nodeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.node.cluster.mu.Lock()
		c.node.cluster.learnSoon()
		c.node.cluster.mu.Unlock()
	}
	return n, err
}

// Close implements net.Conn.
func (c *nodeConn) Close() error {
	c.node.cluster.mu.Lock()
	delete(c.node.conns, c)
	c.node.cluster.mu.Unlock()
	return c.Conn.Close()
}

func (n *Node) drop(useless func(*nodeConn) bool) {
	for conn := range n.conns {
		if useless(conn) {
			delete(n.conns, conn)
			conn.Conn.Close()
		}
	}
}
