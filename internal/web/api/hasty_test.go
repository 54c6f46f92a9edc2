package api

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// raw sends a request on a connection of its own.
func (f *fixture) raw(method, path, body string) *net.TCPConn {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	check(f.t, err)
	f.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	return conn.(*net.TCPConn)
}

// Whoever writes a request and closes at once, without waiting for the answer, has it done all the same.
func TestNobodyWaitsForTheAnswer(t *testing.T) {
	const jobs = 100
	f := start(t, web.Options{})
	stored := func(n int64) {
		t.Helper()
		until(t, fmt.Sprint(n, " jobs wait"), func() bool { return f.redis.Do("ZCARD", "delayer:job_pool") == n })
	}
	for n := range jobs {
		f.raw("POST", "/v1/jobs", fmt.Sprintf(`{"id":"%d","topic":"t","body":"b","delay":3600}`, n)).Close()
	}
	stored(jobs)
	for n := range jobs {
		f.raw("DELETE", fmt.Sprint("/v1/jobs/", n), "").Close()
	}
	stored(0)
	var batch []string
	for n := range jobs {
		batch = append(batch, fmt.Sprintf(`{"id":"%d","topic":"t","body":"b"}`, n))
	}
	f.raw("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(batch, ",")+`]}`).Close()
	until(t, "all are ready", func() bool { return f.redis.Do("LLEN", "delayer:ready_queue:t") == int64(jobs) })
	f.raw("DELETE", "/v1/topics/t/ready", "").Close()
	until(t, "all are purged", func() bool { return f.redis.Do("EXISTS", "delayer:ready_queue:t") == int64(0) })
}

// A client that has closed its side of the connection gets its answer, also of a reserve that waits.
func TestHalfClosed(t *testing.T) {
	f := start(t, web.Options{})
	for _, ready := range []bool{false, true} {
		var conn *net.TCPConn
		if ready {
			f.push("a", "t")
			conn = f.raw("POST", "/v1/reserve?wait=1m", `{"topics":["t"],"lease":"1h"}`)
			conn.CloseWrite()
		} else {
			conn = f.waiting(`{"topics":["t"],"lease":"1h"}`).(*net.TCPConn)
			conn.CloseWrite()
			f.push("a", "t")
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response, err)
		}
		if state := f.state("a"); state != client.Reserved {
			t.Errorf("the job is %q", state)
		}
		f.do("DELETE", "/v1/jobs/a", "")
	}
	if len(f.failures()) > 0 {
		t.Errorf("failed: %v", f.failures())
	}
}
