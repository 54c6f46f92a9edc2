package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Sentinels watch a master, named "m", and two replicas.
type Sentinels struct {
	Servers   []*Server // the master, then its replicas
	Sentinels []*Server
}

// StartSentinels starts three sentinels, a master and two replicas, and waits until they know each other.
func StartSentinels(tb testing.TB) *Sentinels {
	tb.Helper()
	s := &Sentinels{}
	master := Start(tb, quickly...)
	s.Servers = []*Server{master, StartReplica(tb, master), StartReplica(tb, master)}
	for range 3 {
		s.Sentinels = append(s.Sentinels, StartSentinel(tb, master, 2))
	}
	for _, sentinel := range s.Sentinels {
		Until(tb, "a sentinel knows the others", func() bool {
			return len(sentinel.Do("SENTINEL", "REPLICAS", "m").([]any)) == 2 && len(sentinel.Do("SENTINEL", "SENTINELS", "m").([]any)) == 2
		})
	}
	return s
}

// StartSentinel starts a sentinel that watches the server as the master. quorum is the number of sentinels that must agree
// that the master is down. more is added to its configuration file.
func StartSentinel(tb testing.TB, master *Server, quorum int, more ...string) *Server {
	tb.Helper()
	return startSentinel(tb, master.Addr, quorum, more...)
}

func startSentinel(tb testing.TB, master string, quorum int, more ...string) *Server {
	tb.Helper()
	host, port, _ := net.SplitHostPort(master)
	lines := append([]string{
		"sentinel resolve-hostnames yes",
		fmt.Sprintf("sentinel monitor m %s %s %d", host, port, quorum),
		"sentinel down-after-milliseconds m 500",
		"sentinel failover-timeout m 3000",
	}, more...)
	conf := filepath.Join(tb.TempDir(), "sentinel.conf")
	Check(tb, os.WriteFile(conf, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return startAs(tb, conf, "--sentinel")
}

// Addrs returns the addresses of the sentinels.
func (s *Sentinels) Addrs() (addrs []string) {
	for _, sentinel := range s.Sentinels {
		addrs = append(addrs, sentinel.Addr)
	}
	return addrs
}

// Master returns the server that a sentinel reports as the master.
func (s *Sentinels) Master(sentinel *Server) *Server {
	sentinel.TB.Helper()
	parts, err := redis.Strings(sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "m"), nil)
	Check(sentinel.TB, err)
	addr := net.JoinHostPort(parts[0], parts[1])
	return s.Servers[slices.IndexFunc(s.Servers, func(server *Server) bool { return server.Addr == addr })]
}
