package redistest

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is an address that forwards to a redis-server, like a virtual IP, a host name or a slow
// network.
type Proxy struct {
	// Addr is host:port.
	Addr string

	target atomic.Value                 // string
	join   func(client, redis net.Conn) // forwards data until one side ends
	rate   atomic.Int64                 // bytes per second in each direction, 0: no limit
	most   atomic.Int64                 // bytes of replies per connection, 0: no limit
}

// StartProxy starts a proxy in front of target. It ends with the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	NotExternal(tb, "puts a proxy between the client and Redis")
	p := new(Proxy)
	p.join = p.carryBoth
	p.start(tb, target)
	return p
}

func (p *Proxy) start(tb testing.TB, target string) {
	tb.Helper()
	l := listenOnFree(tb)
	p.Addr = l.Addr().String()
	p.Lead(target)
	ctx, end := context.WithCancel(context.Background())
	tb.Cleanup(end)
	context.AfterFunc(ctx, func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.(*net.TCPConn).SetReadBuffer(256 << 10) // otherwise the kernel buffers up to 32 MB ahead of a slow link
			go p.serve(ctx, c)
		}
	}()
}

// Lead sends new connections to target. Existing connections stay.
func (p *Proxy) Lead(target string) { p.target.Store(target) }

// Limit bounds the bytes per second of each connection, in each direction.
func (p *Proxy) Limit(bytesPerSecond int) { p.rate.Store(int64(bytesPerSecond)) }

// FallSilent lets each new connection carry the given number of bytes of replies, and then nothing.
func (p *Proxy) FallSilent(bytes int) { p.most.Store(int64(bytes)) }

func (p *Proxy) serve(ctx context.Context, from net.Conn) {
	defer from.Close()
	to, err := net.Dial("tcp", p.target.Load().(string))
	if err != nil {
		return
	}
	defer to.Close()
	defer context.AfterFunc(ctx, func() { from.Close(); to.Close() })()
	p.join(from, to)
}

func (p *Proxy) carryBoth(from, to net.Conn) {
	answers := io.Writer(from)
	if most := p.most.Load(); most > 0 {
		answers = &limited{from, int(most)}
	}
	either(func() { p.carry(to, from) }, func() { p.carry(answers, to) })
}

// limited drops the bytes beyond its limit.
type limited struct {
	io.Writer
	left int
}

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.left)
	l.left -= n
	_, err := l.Writer.Write(b[:n])
	return len(b), err
}

// either returns when one of the two returns.
func either(a, b func()) {
	done := make(chan struct{}, 2)
	for _, f := range []func(){a, b} {
		go func() {
			f()
			done <- struct{}{}
		}()
	}
	<-done
}

func (p *Proxy) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	var pace pace
	for {
		began := time.Now()
		n, err := from.Read(buffer)
		if rate := p.rate.Load(); rate > 0 {
			pace.keep(began, time.Duration(n)*time.Second/time.Duration(rate))
		}
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// pace holds the time for the next piece. Waking up late on a busy machine does not slow the
// link down.
type pace struct{ next time.Time }

// keep waits as long as a link needs for a piece requested at the given time.
func (p *pace) keep(asked time.Time, takes time.Duration) {
	const idle, most = 20 * time.Millisecond, time.Second // a wait from which the link was idle; the maximum to catch up
	if now := time.Now(); now.Sub(asked) > idle || now.Sub(p.next) > most {
		p.next = now
	}
	p.next = p.next.Add(takes)
	time.Sleep(time.Until(p.next))
}
