package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Each port is used once. If a port were used again while a part of an earlier test, of this process or another,
// still knew it, that part would reach the wrong server. Ports are below the range for outgoing connections, so that
// no such connection takes one while a server is down between Kill and Restart.
var ports struct {
	sync.Mutex
	next, end int
	blocks    []net.Listener // kept by this process until it ends
}

const (
	firstPort, lastPort = 10000, 30000
	portsOfBlock        = 100
)

// freePort returns the next port of a block. Listening on the block's first port reserves it for this process.
func freePort(tb testing.TB) int {
	tb.Helper()
	l := listenOnFree(tb)
	l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// listenOnFree listens on the next port. Listening on it again after Close may fail, because a child process inherits
// the listener when it is forked, and keeps it until it executes its program.
func listenOnFree(tb testing.TB) net.Listener {
	tb.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 10000 {
		if ports.next == ports.end {
			takeBlock()
			continue
		}
		port := ports.next
		ports.next++
		if l := listenOn(port); l != nil {
			return l
		}
	}
	tb.Fatal("no free port")
	return nil
}

func takeBlock() {
	first := firstPort + rand.IntN((lastPort-firstPort)/portsOfBlock)*portsOfBlock
	if l := listenOn(first); l != nil {
		ports.blocks = append(ports.blocks, l)
		ports.next, ports.end = first+1, first+portsOfBlock
	}
}

// listenOn returns nil if the port is taken.
func listenOn(port int) net.Listener {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil
	}
	return l
}

// Nobody returns an address that never has a listener.
func Nobody(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freePort(tb))
}
