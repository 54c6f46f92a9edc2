package delayqueue

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A client that disconnects while waiting, or closes only its side, takes no job with it.
func TestHangUpWhileWaiting(t *testing.T) {
	for name, hangUp := range map[string]func(*net.TCPConn){
		"FIN": func(c *net.TCPConn) { c.Close() },
		"RST": func(c *net.TCPConn) {
			c.SetLinger(0)
			c.Close()
		},
		"half": func(c *net.TCPConn) { c.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, setup{})
			for n := range 30 {
				topics := fmt.Sprintf(`{"topic":"t%d"}`, n)
				if n%2 == 1 {
					topics = fmt.Sprintf(`{"topic":"other%d,t%d"}`, n, n)
				}
				conn := f.request("/pop", topics)
				f.waits(fmt.Sprint("t", n))
				hangUp(conn)
				until(t, "nobody waits", func() bool { return f.front.Counts().Waiting == 0 })
				if name == "half" {
					f.answer(conn).expect(t, done, "null")
				}
				f.push(fmt.Sprint(n), fmt.Sprint("t", n), "b", client.TTR(time.Hour))
				f.arrives(f.later("/pop", topics)).expect(t, done, fmt.Sprintf(`{"id":"%d","body":"b"}`, n))
			}
		})
	}
}

// impatient wraps connections whose writes time out after a few ms. failed receives a value after a
// timeout.
type impatient struct {
	net.Listener
	failed chan error
}

func (l impatient) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return impatientConn{c, l.failed}, err
}

type impatientConn struct {
	net.Conn
	failed chan error
}

func (c impatientConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		return c.Conn.SetWriteDeadline(t)
	}
	return nil
}

func (c impatientConn) Write(p []byte) (int, error) {
	c.Conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.Conn.Write(p)
	if err != nil {
		c.failed <- err
	}
	return n, err
}

// A client that does not read a large answer loses the job when its time limit is over.
func TestSlowReader(t *testing.T) {
	failed := make(chan error, 100)
	f := start(t, setup{listen: func(l net.Listener) net.Listener { return impatient{l, failed} }})
	large := strings.Repeat("x", 16<<20) // more than the socket buffers hold
	f.push("a", "t", large, client.TTR(time.Hour))
	f.request("/pop", `{"topic":"t"}`)
	redistest.Receive(t, failed)
	until(t, "the job is given back", func() bool { return f.is("a", client.Ready) })
	f.request("/pop", `{"topic":"t"}`).Close()
	m, err := f.client.BPop(t.Context(), hangBound, "t")
	if err != nil || m.Body != large {
		t.Errorf("got %d bytes, %v", len(m.Body), err)
	}
}

// If a client disconnects during a large answer, its job is released.
func TestHangUpWithinAnAnswer(t *testing.T) {
	f := start(t, setup{})
	f.push("a", "t", strings.Repeat("x", 16<<20), client.TTR(time.Hour))
	conn := f.request("/pop", `{"topic":"t"}`)
	_, err := conn.Read(make([]byte, 1000))
	check(t, err)
	conn.Close()
	until(t, "the job is given back", func() bool { return f.is("a", client.Ready) })
}

// A client that reads its answer and disconnects keeps its job.
func TestHangUpAfterTheAnswer(t *testing.T) {
	f := start(t, setup{})
	const jobs, callers = 400, 8
	for n := range jobs {
		f.push(fmt.Sprint(n), "t", "b", client.TTR(time.Hour))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range jobs / callers {
				conn := f.request("/pop", `{"topic":"t"}`)
				r := f.answer(conn)
				conn.Close()
				mu.Lock()
				seen[string(r.Data)]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != jobs {
		t.Errorf("%d of %d jobs have come; the others came twice", len(seen), jobs)
	}
}

// A request of any size is executed even if its client closes the connection right after sending it.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	for size, jobs := range map[int]int{1: 200, 700 << 10: 20} {
		f := start(t, setup{})
		for n := range jobs {
			f.request("/push", fmt.Sprintf(`{"topic":"t","id":"%d","delay":3600,"ttr":60,"body":"%s"}`, n, strings.Repeat("x", size))).Close()
		}
		until(t, "all jobs are stored", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(jobs) })
		for n := range jobs {
			f.request([]string{"/delete", "/finish"}[n%2], fmt.Sprintf(`{"id":"%d"}`, n)).Close()
		}
		until(t, "all jobs are deleted", func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == int64(0) })
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
