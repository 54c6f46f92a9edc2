package web

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stateOf returns the connection's state, and whether the client has yet to acknowledge data.
func stateOf(conn net.Conn) (state connState, unread bool) {
	system := below[syscall.Conn](conn)
	if system == nil {
		return unknown, false
	}
	var info *unix.TCPInfo
	raw, err := system.SyscallConn()
	if err == nil {
		raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	}
	switch {
	case info == nil || err != nil || info.State == unix.BPF_TCP_CLOSE:
		return broken, false
	case info.State == unix.BPF_TCP_ESTABLISHED:
		return open, info.Unacked > 0
	}
	return ended, info.Unacked > 0
}
