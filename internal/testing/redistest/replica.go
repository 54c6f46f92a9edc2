package redistest

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// quickly makes a master synchronise its replicas at once, and makes the replicas detect its end
// soon.
var quickly = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// StartReplica starts a replica of the server and waits until it has caught up.
func StartReplica(tb testing.TB, master *Server) *Server {
	tb.Helper()
	master.Do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	replica := startReplica(tb, master)
	_, port, _ := net.SplitHostPort(replica.Addr)
	inStep := regexp.MustCompile("port=" + port + ",state=online,offset=[1-9]")
	Until(tb, "a replica is in step", func() bool {
		master.Do("SET", "some", "offset") // a replica confirms an offset only after it has received something
		master.Do("DEL", "some")
		return inStep.Match(master.Do("INFO", "replication").([]byte))
	})
	return replica
}

func startReplica(tb testing.TB, master *Server) *Server {
	tb.Helper()
	if master.Clustered {
		c := &Cluster{TB: tb, Servers: []*Server{master}}
		replica := c.start()
		c.meet(replica)
		c.await("both know each other", func(s *Server) bool { return strings.Count(c.nodes(s), "\n") == 2 })
		replica.Do("CLUSTER", "REPLICATE", id(master))
		replica.Do("READONLY") // keeps the replica from redirecting the test to the master
		replica.Prefix, replica.Partitions = master.Prefix, master.Partitions
		return replica
	}
	replica := Start(tb, quickly...)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica.Do("REPLICAOF", host, port)
	return replica
}
