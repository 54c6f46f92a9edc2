package web

import (
	"container/heap"
	"container/list"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

const (
	// MaxConns is how many connections a Limited listener should have at a time: more than honest clients need.
	MaxConns = 10000
	// reserved is the fraction of connections (1/reserved) kept for unauthenticated clients: for probes, and
	// for clients that are about to authenticate.
	reserved = 100
)

// AllowedConns is MaxConns, or three quarters of the files that this process may have open, if that is less. The rest is for Redis
// and the logs.
func AllowedConns() int { return connsWith(filesAllowed()) }

func connsWith(files uint64) int {
	if files == 0 {
		return MaxConns
	}
	return int(min(MaxConns, files/4*3))
}

// Limited is a listener with a maximum number of connections. A new connection never waits: when the limit is
// reached it replaces an unauthenticated one, the oldest from the address that has most of them, so that no
// address can crowd out others. A connection counts as authenticated once a token or password was presented
// on it (or, where none is required, once it made a request to a protected area). It is closed only while
// idle, and only to make room for another authenticated one.
type Limited struct {
	net.Listener
	most    int
	dropped func(address string) // called with the address of each connection closed to make room

	mu              sync.Mutex
	unauthenticated map[netip.Addr]*address
	largest         addresses
	authenticated   int
	pending         int       // number of unauthenticated connections
	displaced       uint64    // connections closed to make room, so far
	idle            list.List // authenticated connections between two requests
}

// Limit wraps the listener so that it has at most most connections at a time. dropped, if not nil, is called
// for each unauthenticated connection that is closed to make room.
func Limit(l net.Listener, most int, dropped func(address string)) *Limited {
	return &Limited{Listener: l, most: most, dropped: dropped, unauthenticated: map[netip.Addr]*address{}}
}

// Accept implements net.Listener.
func (l *Limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &limitedConn{Conn: c, owner: l, from: networkOf(c.RemoteAddr().String())}
	if displaced := l.add(conn); displaced != nil && l.dropped != nil {
		l.dropped(displaced.from.String())
	}
	return conn, nil
}

// networkOf returns a client's address without its port; for IPv6 its /64 network, which belongs to one customer.
func networkOf(address string) netip.Addr {
	at, _ := netip.ParseAddrPort(address) // fails for a Unix socket, whose clients share the zero address
	a := at.Addr().Unmap()
	if a.Is6() {
		network, _ := a.WithZone("").Prefix(64)
		a = network.Addr()
	}
	return a
}

// add counts a new connection as unauthenticated and returns the one it replaces, if any.
func (l *Limited) add(c *limitedConn) (displaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.authenticated+l.pending >= l.most {
		l.displaced++
		if displaced = l.largest.oldest(); displaced != nil {
			displaced.close()
		}
	}
	a := l.unauthenticated[c.from]
	if a == nil {
		a = &address{of: c.from}
		l.unauthenticated[c.from] = a
		heap.Push(&l.largest, a)
	}
	c.element = a.conns.PushBack(c)
	heap.Fix(&l.largest, a.at)
	l.pending++
	return displaced
}

// remove takes the connection out of all lists and counts.
func (l *Limited) remove(c *limitedConn) {
	if c.authenticated.Load() {
		l.authenticated--
		if c.element != nil {
			l.idle.Remove(c.element)
		}
	} else {
		l.pending--
		a := l.unauthenticated[c.from]
		a.conns.Remove(c.element)
		if a.conns.Len() == 0 {
			heap.Remove(&l.largest, a.at)
			delete(l.unauthenticated, c.from)
		} else {
			heap.Fix(&l.largest, a.at)
		}
	}
	c.element = nil
}

// authenticate marks the connection as authenticated. It returns false if there are too many of those.
func (c *limitedConn) authenticate() bool {
	if c.authenticated.Load() {
		return true
	}
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return true // nobody will read the answer
	}
	if l.authenticated >= l.most-max(l.most/reserved, 1) {
		first := l.idle.Front()
		if first == nil {
			return false
		}
		first.Value.(*limitedConn).close()
	}
	l.remove(c)
	c.authenticated.Store(true)
	l.authenticated++
	return true
}

// setIdle records whether the connection is between two requests.
func (c *limitedConn) setIdle(idle bool) {
	if !c.authenticated.Load() {
		return
	}
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.gone:
	case idle && c.element == nil:
		c.element = l.idle.PushBack(c)
	case !idle && c.element != nil:
		l.idle.Remove(c.element)
		c.element = nil
	}
}

// limitedConn is a connection of a Limited listener.
type limitedConn struct {
	net.Conn
	owner         *Limited
	from          netip.Addr
	authenticated atomic.Bool
	element       *list.Element // in its address's list, or in the idle list
	gone          bool
}

func (c *limitedConn) Close() error {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	return c.close()
}

// close is Close for callers that hold the listener's lock.
func (c *limitedConn) close() error {
	if !c.gone {
		c.owner.remove(c)
		c.gone = true
	}
	return c.Conn.Close()
}

// NetConn returns the underlying connection.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// below returns the first connection of type T in the chain of wrapped connections, or its zero value.
func below[T any](conn net.Conn) (found T) {
	for {
		if c, ok := conn.(T); ok {
			return c
		}
		above, ok := conn.(interface{ NetConn() net.Conn }) // tls.Conn, and our own wrappers
		if !ok {
			return found
		}
		conn = above.NetConn()
	}
}

// address holds the unauthenticated connections from one address.
type address struct {
	of    netip.Addr
	conns list.List // oldest first
	at    int       // index in the heap
}

// addresses is a heap; the address with most connections is first.
type addresses []*address

// oldest returns the oldest connection of the first address, or nil.
func (h addresses) oldest() *limitedConn {
	if len(h) == 0 {
		return nil
	}
	return h[0].conns.Front().Value.(*limitedConn)
}

func (h addresses) Len() int           { return len(h) }
func (h addresses) Less(i, j int) bool { return h[i].conns.Len() > h[j].conns.Len() }
func (h addresses) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *addresses) Push(a any) {
	a.(*address).at = len(*h)
	*h = append(*h, a.(*address))
}

func (h *addresses) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
