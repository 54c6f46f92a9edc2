package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
)

// Ports are given out once. A port that is given out again while something of an earlier test still
// knows it, of this process or of one beside it, leads that to a server which it was never told of.
// They are below those that systems hand out to outgoing connections, so that none of these takes one while a
// server is down between Kill and Restart.
var ports struct {
	sync.Mutex
	next, end int
	blocks    []net.Listener // of this process, until it ends
}

const (
	firstPort, lastPort = 10000, 30000
	portsOfBlock        = 100
)

// freePort takes the next port of a block, of which the first one is listened on, so that no other process has the block.
func freePort(tb testing.TB) int {
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
			l.Close()
			return port
		}
	}
	tb.Fatal("no free port")
	return 0
}

func takeBlock() {
	first := firstPort + rand.IntN((lastPort-firstPort)/portsOfBlock)*portsOfBlock
	if l := listenOn(first); l != nil {
		ports.blocks = append(ports.blocks, l)
		ports.next, ports.end = first+1, first+portsOfBlock
	}
}

// listenOn is nil if the port is taken.
func listenOn(port int) net.Listener {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil
	}
	return l
}

// Nobody is an address where nobody listens, ever.
func Nobody(tb testing.TB) string {
	tb.Helper()
	return fmt.Sprintf("127.0.0.1:%d", freePort(tb))
}
