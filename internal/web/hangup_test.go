//go:build unix

package web

import (
	"crypto/tls"
	"net"
	"testing"
)

// What the other end has done to a connection is known as soon as it has arrived.
func TestIsClosed(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(*net.TCPConn)
		want bool
	}{
		"nothing":     {func(*net.TCPConn) {}, false},
		"data":        {func(c *net.TCPConn) { c.Write([]byte("x")) }, false},
		"closed":      {func(c *net.TCPConn) { c.Close() }, true},
		"half closed": {func(c *net.TCPConn) { c.CloseWrite() }, true},
		"broken":      {func(c *net.TCPConn) { c.SetLinger(0); c.Close() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			other, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			conn, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			c.do(other.(*net.TCPConn))
			for _, conn := range []net.Conn{conn, tls.Server(conn, nil)} {
				if got := isClosed(conn); got != c.want {
					t.Errorf("%T: got %v, want %v", conn, got, c.want)
				}
			}
			if c.want {
				conn.Close()
				if !isClosed(conn) {
					t.Error("not closed when this end is")
				}
			}
		})
	}
}
