package redistest

import (
	"net"
	"regexp"
	"testing"
)

// quickly are the settings of a master whose replicas get a copy at once, and notice that it is gone.
var quickly = []string{"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"}

// StartReplica starts a replica of the server, and waits until it is in step.
func StartReplica(tb testing.TB, master *Server) *Server {
	tb.Helper()
	master.Do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := Start(tb, quickly...)
	replica.Do("REPLICAOF", host, port)
	_, port, _ = net.SplitHostPort(replica.Addr)
	inStep := regexp.MustCompile("port=" + port + ",state=online,offset=[1-9]")
	Until(tb, "a replica is in step", func() bool {
		master.Do("PUBLISH", "some", "offset") // to hear of; the master sends nothing before it has heard from the replica
		return inStep.Match(master.Do("INFO", "replication").([]byte))
	})
	return replica
}
