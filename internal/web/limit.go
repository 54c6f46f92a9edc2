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
	// MaxConns is how many connections a limited listener has at a time: more than anybody needs who
	// means well, and few enough to leave the process what it needs for Redis.
	MaxConns = 10000
	// reserved is the part of them, one in so many, that is left to those who have not shown a secret:
	// to probes, and to whoever is about to show it.
	reserved = 100
)

// Limited is a listener that has so many connections at a time. Nobody waits for a place: a new one
// takes that of a stranger, who has not shown a secret yet (where there is none: who has asked for
// nothing that needs one). It is the oldest of the address that has most of them, so that
// nobody can take the places of others. Who has shown the secret can be displaced only while he rests
// between two requests, by another who has.
type Limited struct {
	net.Listener
	most    int
	dropped func(address string) // is told of strangers who were displaced

	mu        sync.Mutex
	strangers map[netip.Addr]*address
	largest   addresses
	known     int
	waiting   int       // strangers, in all
	displaced uint64    // strangers, until now
	resting   list.List // of the known
}

// Limit has the listener have no more than most connections at a time. dropped is told of strangers who
// made room for others; nil: nobody is.
func Limit(l net.Listener, most int, dropped func(address string)) *Limited {
	return &Limited{Listener: l, most: most, dropped: dropped, strangers: map[netip.Addr]*address{}}
}

// Accept waits for the next connection.
func (l *Limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	conn := &limitedConn{Conn: c, owner: l, from: addressOf(c)}
	if displaced := l.enter(conn); displaced != nil && l.dropped != nil {
		l.dropped(displaced.from.String())
	}
	return conn, nil
}

// addressOf is whose the connection is: of IPv6 the network, which is one customer's.
func addressOf(c net.Conn) netip.Addr {
	at, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return networkOf(at.Addr())
}

func networkOf(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if a.Is6() {
		network, _ := a.WithZone("").Prefix(64)
		a = network.Addr()
	}
	return a
}

// enter makes the connection a stranger's, and returns the one that has to go for it.
func (l *Limited) enter(c *limitedConn) (displaced *limitedConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known+l.waiting >= l.most {
		l.displaced++
		if displaced = l.largest.oldest(); displaced != nil {
			displaced.close()
		}
	}
	a := l.strangers[c.from]
	if a == nil {
		a = &address{of: c.from}
		l.strangers[c.from] = a
		heap.Push(&l.largest, a)
	}
	c.place = a.conns.PushBack(c)
	heap.Fix(&l.largest, a.at)
	l.waiting++
	return displaced
}

// leave has the connection be neither a stranger's nor a known one.
func (l *Limited) leave(c *limitedConn) {
	if c.known.Load() {
		l.known--
		if c.place != nil {
			l.resting.Remove(c.place)
		}
	} else {
		l.waiting--
		a := l.strangers[c.from]
		a.conns.Remove(c.place)
		if a.conns.Len() == 0 {
			heap.Remove(&l.largest, a.at)
			delete(l.strangers, c.from)
		} else {
			heap.Fix(&l.largest, a.at)
		}
	}
	c.place = nil
}

// know enters that the connection is no stranger's, unless there are too many such.
func (c *limitedConn) know() bool {
	if c.known.Load() {
		return true
	}
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.gone {
		return true // nobody gets the answer
	}
	if l.known >= l.most-max(l.most/reserved, 1) {
		first := l.resting.Front()
		if first == nil {
			return false
		}
		first.Value.(*limitedConn).close()
	}
	l.leave(c)
	c.known.Store(true)
	l.known++
	return true
}

// rest enters whether the connection rests between two requests.
func (c *limitedConn) rest(rests bool) {
	if !c.known.Load() {
		return
	}
	l := c.owner
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case c.gone:
	case rests && c.place == nil:
		c.place = l.resting.PushBack(c)
	case !rests && c.place != nil:
		l.resting.Remove(c.place)
		c.place = nil
	}
}

// limitedConn is a connection of a limited listener.
type limitedConn struct {
	net.Conn
	owner *Limited
	from  netip.Addr
	known atomic.Bool
	place *list.Element // among its address's strangers, or those who rest
	gone  bool
}

func (c *limitedConn) Close() error {
	c.owner.mu.Lock()
	defer c.owner.mu.Unlock()
	return c.close()
}

// close is Close for who holds the listener's lock. The place is given away for good.
func (c *limitedConn) close() error {
	if !c.gone {
		c.owner.leave(c)
		c.gone = true
	}
	return c.Conn.Close()
}

// NetConn is the connection itself.
func (c *limitedConn) NetConn() net.Conn { return c.Conn }

// below is the first connection of that type, of this one and those that it wraps; its zero value if there is
// none.
func below[T any](conn net.Conn) (found T) {
	for {
		if c, ok := conn.(T); ok {
			return c
		}
		above, ok := conn.(interface{ NetConn() net.Conn }) // TLS, and our own
		if !ok {
			return found
		}
		conn = above.NetConn()
	}
}

// address is where strangers' connections are from.
type address struct {
	of    netip.Addr
	conns list.List // the oldest first
	at    int       // in the heap
}

// addresses are a heap; the first has most connections.
type addresses []*address

// oldest is that connection of the first address; nil if there is none.
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
