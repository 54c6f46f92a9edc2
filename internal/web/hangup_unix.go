//go:build unix

package web

import (
	"net"
	"syscall"
)

// isClosed reports whether the other end has closed the connection, or its side of it, or has broken it.
// It looks at what comes next without taking it.
func isClosed(conn net.Conn) bool {
	raw, err := rawConn(conn)
	if raw == nil {
		return err != nil
	}
	closed := false
	err = raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK)
		closed = err == nil && n == 0 || err != nil && err != syscall.EAGAIN && err != syscall.EINTR
	})
	return closed || err != nil
}

// rawConn is the system's connection below others; nil if there is none.
func rawConn(conn net.Conn) (syscall.RawConn, error) {
	for {
		above, ok := conn.(interface{ NetConn() net.Conn }) // TLS, and what was read ahead of
		if !ok {
			break
		}
		conn = above.NetConn()
	}
	if c, ok := conn.(syscall.Conn); ok {
		return c.SyscallConn()
	}
	return nil, nil
}
