package delayqueue

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

// hangUps are the ways to end a connection.
var hangUps = map[string]func(*net.TCPConn){
	"closed":      func(c *net.TCPConn) { c.Close() },
	"half closed": func(c *net.TCPConn) { c.CloseWrite() },
}

// A request of any size is executed even if its client closes the connection right after sending it.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	const jobs = 200
	for name, hangUp := range hangUps {
		for _, size := range []int{1, 700 << 10} {
			t.Run(fmt.Sprint(name, ", bodies of ", size), func(t *testing.T) {
				f := start(t, setup{})
				jobs := jobs
				if size > 1 {
					jobs = 20
				}
				for n := range jobs {
					hangUp(f.request("/push", fmt.Sprintf(`{"topic":"t","id":"%d","delay":3600,"ttr":60,"body":"%s"}`, n, strings.Repeat("x", size))))
				}
				until(t, "all jobs are stored", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(jobs) })
				for n := range jobs {
					hangUp(f.request([]string{"/delete", "/finish"}[n%2], fmt.Sprintf(`{"id":"%d"}`, n)))
				}
				until(t, "all jobs are deleted", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(0) })
			})
		}
	}
}

// If a client resets its connection, the data read before is executed. On this system that is
// everything that arrived.
func TestBrokenBehindARequest(t *testing.T) {
	f := start(t, setup{})
	for n := range 50 {
		conn := f.request("/push", fmt.Sprintf(`{"topic":"t","id":"%d","delay":3600,"ttr":60,"body":"b"}`, n))
		conn.SetLinger(0)
		conn.Close()
	}
	until(t, "all jobs are stored", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(50) })
}
