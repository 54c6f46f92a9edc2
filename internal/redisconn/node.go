package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"
)

// Node is a server that connections lead to. Sources that have the same Node now may share connections.
type Node struct {
	Addr string // host:port of a cluster's node; empty where there is no cluster, or as long as the node is not known

	// Cluster.mu guards what changes.
	cluster *Cluster
	pool    Pool
	conns   map[*nodeConn]bool
	left    bool
}

// nodeConn is a connection to a node of a cluster.
type nodeConn struct {
	net.Conn
	node *Node
	slot *int // the connection is useful only as long as the node owns this slot; nil for any
}

// toNode locates a node of a cluster.
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

// drop closes the connections that are useless. Cluster.mu must be held.
func (n *Node) drop(useless func(*nodeConn) bool) {
	for conn := range n.conns {
		if useless(conn) {
			delete(n.conns, conn)
			conn.Conn.Close()
		}
	}
}
