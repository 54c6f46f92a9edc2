package pooltest

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
)

// Holder delays replies to script calls that contain some text.
type Holder struct {
	Sent chan struct{} // receives for each delayed reply
	Pass chan error    // lets one reply through, or replaces it with an error

	text atomic.Pointer[string]
}

// NewHolder returns a Holder that delays nothing yet.
func NewHolder() *Holder { return &Holder{Sent: make(chan struct{}, 100), Pass: make(chan error)} }

// Hold delays the replies to calls with this text from now on.
func (h *Holder) Hold(text string) { h.text.Store(&text) }

// Wrap is a Wrap.
func (h *Holder) Wrap(_ context.Context, conn net.Conn) net.Conn {
	return &heldConn{Conn: conn, holder: h}
}

type heldConn struct {
	net.Conn
	holder *Holder
	holds  atomic.Bool
}

func (c *heldConn) Write(b []byte) (int, error) {
	if text := c.holder.text.Load(); text != nil && bytes.Contains(b, []byte("EVAL")) && bytes.Contains(b, []byte(*text)) {
		c.holds.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *heldConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.holds.CompareAndSwap(true, false) {
		c.holder.Sent <- struct{}{}
		if lost := <-c.holder.Pass; lost != nil {
			return 0, lost
		}
	}
	return n, err
}
