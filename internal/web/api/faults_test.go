package api

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// expectSecret checks that the problem reveals nothing about Redis and that Failed was called.
func (f *fixture) expectSecret(r reply, secrets ...string) {
	f.t.Helper()
	for _, secret := range append(secrets, "job_pool", "ready_queue", "WRONGTYPE", "NOPERM", "OOM", "@user_script", f.redis.Addr) {
		if strings.Contains(r.body, secret) {
			f.t.Errorf("it tells %q: %s", secret, r.body)
		}
	}
	f.expectFailures(1)
}

// While Redis is down every route reports it, with a Retry-After.
func TestRedisIsAway(t *testing.T) {
	f := start(t, web.Options{})
	f.redis.Kill()
	f.eachRoute(func(r Route, request *http.Request) {
		if r.Path == "/v1/openapi.yaml" {
			return
		}
		got := f.send(request).problem(unavailable, "", "", "unknown")
		if got.header.Get("Retry-After") != "2" {
			t.Errorf("%s %s: Retry-After %q", r.Method, r.Path, got.header.Get("Retry-After"))
		}
		f.expectSecret(got)
	})
	f.redis.Restart()
	f.do("POST", "/v1/jobs", `{"id":"b","topic":"t","body":"b"}`).expect(201, `{"id":"b","outcome":"created"}`)
}

// A poll that could not reach Redis does not claim that there is no job.
func TestRedisHangs(t *testing.T) {
	f := &fixture{redis: start(t, web.Options{}).redis, t: t, pushed: map[string]int{}}
	f.serve(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: 50 * time.Millisecond}, web.Options{})
	f.redis.Hang()
	defer f.redis.Continue()
	f.do("POST", "/v1/reserve?wait=10ms", `{"topics":["t"]}`).problem(unavailable, "", "", "")
	f.do("POST", "/v1/jobs", `{"topic":"t","body":"b"}`).problem(unavailable, "", "", "")
	f.expectFailures(2)
}

func TestRedisIsFull(t *testing.T) {
	f := start(t, web.Options{})
	f.push("a", "t")
	f.redis.Do("CONFIG", "SET", "maxmemory", "1")
	r := f.do("POST", "/v1/jobs", `{"topic":"t","body":"b"}`).problem(full, "", "", "nothing was stored")
	if r.header.Get("Retry-After") != "10" {
		t.Errorf("Retry-After %q", r.header.Get("Retry-After"))
	}
	f.expectSecret(r)
	f.do("POST", "/v1/jobs/batch", `{"jobs":[{"topic":"t","body":"b"},{"topic":"t","body":"c"}]}`).problem(full, "", "", "")
	f.expectFailures(1)
	lease := f.reserve("1m")
	f.do("POST", "/v1/jobs/a/ack", "{"+lease+"}").expect(204, "")
}

// Missing permissions and broken keys are reported as permanent.
func TestRedisRefuses(t *testing.T) {
	f := start(t, web.Options{})
	f.redis.Do("SET", "delayer:ready_queue:t", "no list")
	f.expectSecret(f.do("POST", "/v1/jobs", `{"id":"secret","topic":"t","body":"b"}`).problem(refused, "", "", "wrong type"))
	f.redis.Do("ACL", "SETUSER", "default", "-zadd")
	f.expectSecret(f.do("POST", "/v1/jobs", `{"topic":"u","body":"b","delay":60}`).problem(refused, "", "", "lacks a permission"))
	g := &fixture{redis: f.redis, t: t, pushed: map[string]int{}}
	g.serve(client.PoolOptions{Addr: f.redis.Addr, Username: "somebody", Password: "swordfish"}, web.Options{})
	g.expectSecret(g.do("POST", "/v1/jobs", `{"topic":"u","body":"b"}`).problem(refused, "", "", "lacks a permission"), "somebody", "swordfish")
}

// While the daemon stops, errors do not blame Redis.
func TestClosed(t *testing.T) {
	f := start(t, web.Options{})
	f.Client.Close()
	f.do("POST", "/v1/jobs", `{"topic":"u","body":"b"}`).problem(stopping, "", "", "")
	for _, wait := range []string{"", "?wait=1s"} {
		f.do("POST", "/v1/reserve"+wait, `{"topics":["u"]}`).expect(200, `{"deliveries":[]}`)
	}
}

// A body that is missing or shorter than announced neither blocks the server nor pushes half a job.
func TestHalfABody(t *testing.T) {
	f := start(t, web.Options{})
	conn := f.connect()
	body := `{"id":"a","topic":"t","body":"b"}`
	fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body)+1, body)
	conn.CloseWrite()
	f.answer(conn).problem(badRequest, "", "", "shorter")
	f.is("a", "")
}

// Malformed chunks are a bad request, not a slow one, and nothing after them on the connection is executed.
func TestMalformedChunks(t *testing.T) {
	f := start(t, web.Options{})
	for _, chunks := range []string{"zz\r\n{}\r\n0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n", "11111111111111111\r\n{}\r\n", strings.Repeat("1", 9000)} {
		conn := f.connect()
		fmt.Fprintf(conn, "POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%s", chunks)
		answers := bufio.NewReader(conn)
		response, err := http.ReadResponse(answers, nil)
		check(t, err)
		f.read(response).problem(badRequest, "", "", "chunks")
		if !response.Close {
			t.Errorf("%.20q: the connection stays open", chunks)
		}
	}
}

// A client that sends too slowly gets 408 and its connection is closed.
func TestSlowBody(t *testing.T) {
	f := start(t, web.Options{})
	r := f.request("POST", "/v1/jobs", "x")
	r.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded))
	w := httptest.NewRecorder()
	New(f.Client, nil, Options{}).Handler.ServeHTTP(w, r)
	reply{w.Code, w.Header(), w.Body.String(), t}.problem(slow, "", "", "did not arrive")
	if w.Header().Get("Connection") != "close" {
		t.Error("the connection stays open")
	}
}

// When too many requests wait, a further one gets 503 with a Retry-After.
func TestTooManyWait(t *testing.T) {
	w := httptest.NewRecorder()
	problemOf(web.ErrCrowded).answer().write(w)
	reply{w.Code, w.Header(), w.Body.String(), t}.problem(waiting, "", "", "no job is ready")
	if w.Header().Get("Retry-After") != "2" {
		t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
	}
}
