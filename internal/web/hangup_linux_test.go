package web

import (
	"crypto/tls"
	"net"
	"testing"
)

// A change at the other end is detected as soon as it arrives.
func TestStateOf(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*net.TCPConn)
		want connState
		read bool // whether the other end still reads
	}{
		"nothing":               {func(*net.TCPConn) {}, open, false},
		"data":                  {func(c *net.TCPConn) { c.Write([]byte("x")) }, open, false},
		"closed":                {func(c *net.TCPConn) { c.Close() }, ended, false},
		"closed behind data":    {func(c *net.TCPConn) { c.Write([]byte("x")); c.Close() }, ended, false},
		"half closed":           {func(c *net.TCPConn) { c.CloseWrite() }, ended, true},
		"half, and then wholly": {func(c *net.TCPConn) { c.CloseWrite(); c.Close() }, ended, false},
		"broken":                {func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLimited(t, 1)
			other := l.connect("127.0.0.1")
			conn, err := l.Listener.Accept()
			check(t, err)
			defer conn.Close()
			c.do(other.(*net.TCPConn))
			for _, above := range []net.Conn{conn, &plainConn{Conn: conn}, tls.Server(conn, nil)} {
				if got, _ := stateOf(above); got != c.want {
					t.Errorf("%T: got %v, want %v", above, got, c.want)
				}
			}
			conn.Write([]byte("H"))
			if got := isRead(conn); got != c.read {
				t.Errorf("it is read: %v", got)
			}
			conn.Close()
			if got, _ := stateOf(conn); got != broken {
				t.Errorf("got %v when this end is closed", got)
			}
		})
	}
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	if got, _ := stateOf(here); got != unknown {
		t.Errorf("got %v of what is no connection of the system's", got)
	}
}
