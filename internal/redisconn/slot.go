package redisconn

import (
	"context"
	"errors"
	"fmt"
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

// noSlot makes the Source of a prefix whose keys would be in many slots. It refuses all calls.
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

// owner asks the nodes if it is not known.
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
// address without brackets, or :port on its own host. One that has no name is not told; then another node has to be asked.
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
