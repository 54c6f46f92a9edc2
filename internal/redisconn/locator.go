package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Locator knows where the server is that takes our writes. Each dial asks it, so it need not be told of
// failures: what breaks, or takes no writes, is dialled anew.
type Locator interface {
	// Locate calls dial, with one address after the other, until that opens a connection.
	Locate(ctx context.Context, dial Dial) (redis.Conn, error)
	// Guard may close a connection to an address once the server is elsewhere.
	Guard(addr string, conn net.Conn) net.Conn
}

// Dial opens a connection to an address: host:port, or the path of a unix socket.
type Dial func(ctx context.Context, addr string) (redis.Conn, error)

// Fixed is the Locator of a server that is always at the same address.
type Fixed string

// Locate implements Locator.
func (f Fixed) Locate(ctx context.Context, dial Dial) (redis.Conn, error) {
	return dial(ctx, string(f))
}

// Guard implements Locator.
func (f Fixed) Guard(_ string, conn net.Conn) net.Conn { return conn }

// askWithin is how long a guide may take to answer, so that one that hangs holds nobody up for long.
const askWithin = time.Second

// guides are servers that know where others are: sentinels, or the nodes of a cluster. They are asked in turn, and those last that did not answer.
type guides struct {
	dialer Dialer // its Locator is not used

	mu    sync.Mutex
	addrs []string
}

func newGuides(addrs []string, d Dialer) guides {
	return guides{dialer: d.within(askWithin), addrs: slices.Clone(addrs)}
}

// set replaces the addresses.
func (g *guides) set(addrs []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addrs = nil
	for _, addr := range addrs {
		if !slices.Contains(g.addrs, addr) {
			g.addrs = append(g.addrs, addr)
		}
	}
}

func (g *guides) inTurn() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.addrs)
}

// each calls do with one address after the other, until one helps. It returns the errors of those that did not.
func (g *guides) each(ctx context.Context, do func(addr string) error) (failures []error, helped bool) {
	for _, addr := range g.inTurn() {
		err := do(addr)
		if err == nil {
			return nil, true
		}
		if failures = append(failures, err); IsOver(ctx) {
			break
		}
	}
	return failures, false
}

// ask makes a command at one guide.
func (g *guides) ask(ctx context.Context, addr, command string, args ...any) (reply any, err error) {
	conn, err := g.dialer.to(addr).Dial(ctx)
	if err == nil {
		defer conn.Close()
		reply, err = redis.DoContext(conn, ctx, command, args...)
	}
	if err != nil && !errors.As(err, new(redis.Error)) && ctx.Err() != context.Canceled { // else the caller gave up
		g.rank(addr, false)
	}
	return reply, err
}

// rank makes that guide the first to be asked, or the last.
func (g *guides) rank(addr string, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.addrs = slices.DeleteFunc(g.addrs, func(a string) bool { return a == addr })
	place := len(g.addrs)
	if first {
		place = 0
	}
	g.addrs = slices.Insert(g.addrs, place, addr)
}

// joined joins the errors in one line.
func joined(what error, failures []error) error {
	separator := ":"
	for _, err := range failures {
		what = fmt.Errorf("%w%s %w", what, separator, err)
		separator = ";"
	}
	return what
}

// IsOver reports whether ctx is done, or its deadline has passed: a connection notices that a little sooner.
func IsOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

// guarded are open connections to addresses where the server may not be any more.
type guarded struct {
	mu    sync.Mutex
	conns map[*guardedConn]bool
}

type guardedConn struct {
	net.Conn
	addr   string
	all    *guarded
	breaks func() // called when the connection breaks
}

func (g *guarded) add(addr string, conn net.Conn, breaks func()) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	c := &guardedConn{conn, addr, g, breaks}
	if g.conns == nil {
		g.conns = map[*guardedConn]bool{}
	}
	g.conns[c] = true
	return c
}

// but returns the connections to other addresses than those of servers that are still there.
func (g *guarded) but(there func(addr string) bool) (others []*guardedConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.conns {
		if !there(c.addr) {
			others = append(others, c)
		}
	}
	return others
}

// Read implements net.Conn.
func (c *guardedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.breaks()
	}
	return n, err
}

// Close implements net.Conn.
func (c *guardedConn) Close() error {
	c.all.mu.Lock()
	delete(c.all.conns, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}
