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

// connect opens a new connection.
func (f *fixture) connect() *net.TCPConn {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.url, "http://"))
	check(f.t, err)
	f.t.Cleanup(func() { conn.Close() })
	return conn.(*net.TCPConn)
}

// raw sends a request on a new connection.
func (f *fixture) raw(method, path, body string) *net.TCPConn {
	f.t.Helper()
	conn := f.connect()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body)
	return conn
}

// answer reads the answer.
func (f *fixture) answer(conn net.Conn) reply {
	f.t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(f.t, err)
	return f.read(response)
}

// A request is executed even if its client closes the connection right after sending it.
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
}

// A client that closes its side of the connection after a push still gets the answer.
func TestHalfClosed(t *testing.T) {
	f := start(t, web.Options{})
	conn := f.raw("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b"}`)
	conn.CloseWrite()
	f.answer(conn).expect(201, `{"id":"a","outcome":"*"}`)
	f.is("a", client.StateReady)
}
