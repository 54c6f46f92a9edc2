//go:build unix

package web

import (
	"net"
	"syscall"
)

// isClosed reports whether the other end has closed the connection, or broken it. It looks at what
// comes next without taking it.
func isClosed(conn net.Conn) bool {
	for {
		above, ok := conn.(interface{ NetConn() net.Conn }) // TLS, and what was read ahead of
		if !ok {
			break
		}
		conn = above.NetConn()
	}
	c, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return closed || err != nil
}
