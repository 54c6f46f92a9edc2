//go:build !windows

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// occupy sends requests that wait for jobs, and some that never finish.
func occupy(t *testing.T, url string, polls int) {
	t.Helper()
	raw := func(text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, text)
	}
	const topics = 50
	for n := range polls {
		body := fmt.Sprintf(`{"topic":"nothing%d"}`, n%topics)
		raw(fmt.Sprintf("POST /pop HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if n%5 == 0 {
			raw("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		}
	}
}

// flood pushes and reads constantly, until it is stopped. It counts what is served.
func flood(t *testing.T, url string) (served *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	served = new(atomic.Int64)
	var visitors sync.WaitGroup
	visitor := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	for n := range 24 {
		visitors.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				method, path, body := "POST", "/push", fmt.Sprintf(`{"topic":"flood","id":"%d-%d","delay":1,"ttr":60,"body":"b"}`, n, i)
				if n%3 == 0 {
					method, path, body = "GET", []string{"/", "/metrics", "/v1/stats", "/ui/topics"}[i%4], ""
				}
				r, err := http.NewRequest(method, url+path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := visitor.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK || strings.HasPrefix(string(text), `{"code":1`) {
					t.Errorf("%s: %s %.200s", path, answer.Status, text)
					return
				}
				served.Add(1)
			}
		})
	}
	return served, func() {
		cancel()
		visitors.Wait()
	}
}

// Due jobs are delivered whatever the load on the HTTP server: hundreds of requests wait, others push and
// read constantly, and some never finish.
func TestDeliveryGoesOnWhileTheHTTPServerIsFlooded(t *testing.T) {
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "max_active = 3", "[http]", "listen = 127.0.0.1:0")
	url := urlOf(s.start(t))
	polls, first := 500, int64(1000)
	if testing.Short() {
		polls, first = 200, 200
	}
	occupy(t, url, polls)
	served, stop := flood(t, url)
	defer stop()
	more := func(n int64) {
		t.Helper()
		before := served.Load()
		eventually(t, fmt.Sprint(n, " more requests are served"), func() bool { return served.Load() >= before+n })
	}
	more(first)

	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: redisServer.Addr}))
	defer c.Close()
	const jobs = 200
	for n := range jobs {
		_, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint("order", n), Topic: "orders", Body: "b"}, time.Duration(n+1)*5*time.Millisecond)
		check(t, err)
	}
	delivered := map[string]bool{}
	for len(delivered) < jobs {
		m, err := c.BPop(t.Context(), time.Minute, "orders")
		if err != nil {
			t.Fatalf("%d of %d jobs are delivered, then: %v", len(delivered), jobs, err)
		}
		delivered[m.ID] = true
	}
	more(100) // the flood still runs
	stop()
	if err := read(t, s.errors); err != "" {
		t.Errorf("the error log has %q", err)
	}
}
