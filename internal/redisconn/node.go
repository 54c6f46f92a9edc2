package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"
)

// node is one that owns slots of a cluster. Cluster.mu guards what changes.
type node struct {
	cluster *Cluster
	addr    string
	pool    Pool
	conns   map[*nodeConn]bool
	left    bool
}

// String is the node's address.
func (n *node) String() string { return n.addr }

// nodeConn is a connection to a node.
type nodeConn struct {
	net.Conn
	node *node
	slot *int // it is of use only as long as the node owns that; nil for any
}

// toNode is the Locator of a node.
type toNode struct {
	*node
	slot *int
}

// Locate is that of a Locator.
func (t toNode) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	conn, err := dial(ctx, t.addr)
	if errors.As(err, new(redis.Error)) { // as that of a node with another password; the network's errors have the address
		err = fmt.Errorf("node %s: %w", t.addr, err)
	}
	return conn, err
}

// Guard has the connection closed once it is of no use any more, whoever waits on it: a node that hangs says nothing.
func (t toNode) Guard(_ string, conn net.Conn) net.Conn {
	c := &nodeConn{conn, t.node, t.slot}
	t.cluster.mu.Lock()
	defer t.cluster.mu.Unlock()
	if t.left {
		conn.Close()
		return conn
	}
	t.conns[c] = true
	if !t.cluster.watching {
		t.cluster.watching = true
		go t.cluster.watch()
	}
	return c
}

// Read has the nodes asked who owns what if the connection breaks: a replica may have become the master.
func (c *nodeConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.node.cluster.mu.Lock()
		c.node.cluster.learnSoon()
		c.node.cluster.mu.Unlock()
	}
	return n, err
}

// Close is that of a net.Conn.
func (c *nodeConn) Close() error {
	c.node.cluster.mu.Lock()
	delete(c.node.conns, c)
	c.node.cluster.mu.Unlock()
	return c.Conn.Close()
}

// drop closes those connections.
func (n *node) drop(useless func(*nodeConn) bool) {
	for conn := range n.conns {
		if useless(conn) {
			delete(n.conns, conn)
			conn.Conn.Close()
		}
	}
}

// leave closes all connections to the node. Its pool stays open: redigo's may panic when they are closed under a call.
func (c *Cluster) leave(n *node) {
	n.left = true
	delete(c.nodes, n.addr)
	n.drop(func(*nodeConn) bool { return true })
}
