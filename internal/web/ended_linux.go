package web

import (
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// readTimeout is how long the other end's system may take to say that it has got what was written,
// or that nobody reads it any more.
const readTimeout = 2 * time.Second

// isRead reports whether the other end of a connection, which has closed at least its own side of it,
// still takes what was written.
func isRead(conn net.Conn) bool {
	pause := 50 * time.Microsecond
	for began := time.Now(); time.Since(began) < readTimeout; time.Sleep(pause) {
		switch info := tcpInfo(conn); {
		case info == nil || info.State == unix.BPF_TCP_CLOSE:
			return false
		case info.Unacked == 0:
			return true
		}
		pause = min(2*pause, 20*time.Millisecond)
	}
	return false
}

func tcpInfo(conn net.Conn) (info *unix.TCPInfo) {
	raw, _ := rawConn(conn)
	if raw == nil {
		return nil
	}
	raw.Control(func(fd uintptr) { info, _ = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	return info
}

// untilBroken waits until such a connection is broken, or its time for reading is over.
func untilBroken(conn net.Conn) error {
	raw, _ := rawConn(conn)
	if raw == nil {
		return io.ErrClosedPipe
	}
	err := raw.Read(func(fd uintptr) bool {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		return err != nil || info.State == unix.BPF_TCP_CLOSE
	})
	if err == nil {
		err = io.ErrClosedPipe
	}
	return err
}
