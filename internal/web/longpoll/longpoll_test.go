package longpoll

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

const hangBound = redistest.HangBound

// fixture is a server whose requests wait for jobs of topic t, or of the topic they name, for the time in
// their path.
type fixture struct {
	redis  *redistest.Server
	client *client.Client
	poller *Poller
	front  *web.Server
	addr   string
	stop   func()                // stops the HTTP server
	asks   atomic.Int32          // requests received
	other  func(r *http.Request) // serves /poll/other
}

func start(t *testing.T, o client.PoolOptions) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	f := &fixture{redis: redistest.Start(t), addr: l.Addr().String()}
	o.Addr = f.redis.Addr
	f.client = redistest.Must(client.OpenPool(o))
	f.poller = New(f.client, func(err error) { t.Error(err) })
	f.front = web.New(web.Options{}, web.Area{Patterns: []string{"/poll/"}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/poll/other" {
			f.other(r)
			return
		}
		wait, _ := time.ParseDuration(path.Base(r.URL.Path))
		f.asks.Add(1)
		topics := []string{cmp.Or(r.URL.Query().Get("topic"), "t")}
		jobs, err := f.poller.Reserve(w, r, topics, client.FetchOptions{Max: 2, Lease: time.Hour}, wait)
		for _, d := range jobs {
			fmt.Fprint(w, d.ID, " ")
		}
		fmt.Fprint(w, err)
	})})
	t.Cleanup(func() { f.client.Close() })
	f.stop = redistest.Background(t, func(ctx context.Context) error { return f.front.Serve(ctx, l) })
	return f
}

// ask sends a request with that wait; the channel receives its answer.
func (f *fixture) ask(wait string) <-chan string {
	answers := make(chan string, 1)
	go func() {
		answer, err := http.Get("http://" + f.addr + "/poll/" + wait)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		answers <- string(text)
	}()
	return answers
}

func expect(t *testing.T, answers <-chan string, want string) {
	t.Helper()
	if got := redistest.Receive(t, answers); got != want {
		t.Errorf("answered %q, want %q", got, want)
	}
}

func (f *fixture) push(t *testing.T, ids ...string) {
	t.Helper()
	var jobs []client.Item
	for _, id := range ids {
		jobs = append(jobs, client.Item{Message: client.Message{ID: id, Topic: "t", Body: "b"}})
	}
	_, err := f.client.PushBatch(t.Context(), jobs)
	check(t, err)
}

// until waits until a condition holds.
var check, until = redistest.Check, redistest.Until

// A waiting request gets a job once there is one, and none when its time is over.
func TestWait(t *testing.T) {
	f := start(t, client.PoolOptions{})
	expect(t, f.ask("1ns"), "<nil>") // polled Redis nevertheless
	expect(t, f.ask("200ms"), "<nil>")
	answers := f.ask("1h")
	f.redis.AwaitWaiter("t")
	f.push(t, "a")
	expect(t, answers, "a <nil>")
}

// While Redis hangs, each request gets an error in time, however many wait for a connection. An
// unreachable Redis does not count as an empty queue.
func TestRedisHangs(t *testing.T) {
	for _, wait := range []string{"0s", "1ms", "500ms"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			f := start(t, client.PoolOptions{MaxActive: 1})
			f.poller.answer = 200 * time.Millisecond
			f.redis.Hang()
			defer f.redis.Continue()
			var all []<-chan string
			for n := range 25 {
				all = append(all, f.ask(fmt.Sprint(wait, "?topic=", n)))
			}
			for _, answers := range all {
				if got := redistest.Receive(t, answers); !strings.Contains(got, "fetch: ") {
					t.Errorf("answered %q, want the error", got)
				}
			}
		})
	}
}

// When the server stops, requests that wait for their turn to poll are answered even if Redis hangs.
func TestStopWhileAnotherPolls(t *testing.T) {
	for _, wait := range []string{"0s", "1h"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			f := start(t, client.PoolOptions{})
			wire := redistest.StartCutter(t, f.redis.Addr)
			f.poller.client = redistest.Must(client.OpenPool(client.PoolOptions{Addr: wire.Addr, ReadTimeout: hangBound}))
			defer f.poller.client.Close()
			check(t, f.poller.client.Ping(t.Context()))
			f.redis.Hang()
			defer f.redis.Continue()
			wire.Arm(0, false)
			f.ask(wait)
			until(t, "the first polls", func() bool { return len(wire.Commands()) > 0 })
			second := f.ask(wait)
			until(t, "the second asks", func() bool { return f.asks.Load() == 2 })
			f.stop()
			expect(t, second, "<nil>")
		})
	}
}

// When too many requests wait, a further request gets a ready job, or else an error.
func TestTooManyWait(t *testing.T) {
	f := start(t, client.PoolOptions{})
	ended := make(chan bool)
	waits := func() int { return f.front.Counts().Waiting }
	f.other = func(r *http.Request) {
		var waiting sync.WaitGroup
		for range web.MaxWaiting {
			waiting.Go(func() {
				web.Wait(httptest.NewRecorder(), r, time.Hour, func(context.Context) error { <-ended; return nil })
			})
		}
		waiting.Wait()
	}
	others := f.ask("other")
	until(t, "too many wait", func() bool { return waits() == web.MaxWaiting })
	expect(t, f.ask("1h"), web.ErrCrowded.Error())
	f.redis.Do("SET", "delayer:ready_queue:broken", "no list")
	if got := redistest.Receive(t, f.ask("1h?topic=broken")); !strings.Contains(got, "WRONGTYPE") {
		t.Errorf("answered %q, want the error", got)
	}
	f.push(t, "a")
	expect(t, f.ask("1h"), "a <nil>")
	close(ended)
	<-others
	expect(t, f.ask("1ms"), "<nil>")
}

// Undelivered jobs are released in the order of their topic, and the attempts do not count.
func TestReleasedInOrder(t *testing.T) {
	f := start(t, client.PoolOptions{})
	f.push(t, "a", "b", "c", "d")
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	jobs, err := f.poller.Reserve(w, r, []string{"t"}, client.FetchOptions{Max: 3}, 0)
	if len(jobs) != 3 || err != nil {
		t.Errorf("got %d jobs, %v", len(jobs), err)
	}
	f.poller.Release(jobs)
	for _, id := range []string{"a", "b", "c", "d"} {
		d, err := f.client.Reserve(t.Context(), 0, "t")
		if err != nil || d.ID != id || d.Attempt != 1 {
			t.Errorf("got %s at attempt %d, %v; want %s at its first", d.ID, d.Attempt, err, id)
		}
	}
}

// A job that is reserved for a client that is gone by then is released at once, and the attempt does not count.
func TestGone(t *testing.T) {
	f := start(t, client.PoolOptions{})
	f.push(t, "a")
	f.other = func(r *http.Request) {
		until(t, "the client is gone", func() bool { return web.Gone(r) })
		if jobs, err := f.poller.Reserve(httptest.NewRecorder(), r, []string{"t"}, client.FetchOptions{Max: 1, Lease: time.Hour}, 0); len(jobs) > 0 || err != nil {
			t.Errorf("got %d jobs, %v", len(jobs), err)
		}
	}
	conn, err := net.Dial("tcp", f.addr)
	check(t, err)
	io.WriteString(conn, "GET /poll/other HTTP/1.1\r\nHost: localhost\r\n\r\n")
	conn.Close()
	d, err := f.client.Reserve(t.Context(), 0, "t")
	if err != nil || d.ID != "a" || d.Attempt != 1 {
		t.Errorf("got %s at attempt %d, %v", d.ID, d.Attempt, err)
	}
}

// A wait that ran out during the first poll does not wait again.
func TestSlowFirstPoll(t *testing.T) {
	f := start(t, client.PoolOptions{})
	check(t, f.client.Ping(t.Context()))
	const wait = 100 * time.Millisecond
	f.redis.Hang()
	answers := f.ask(wait.String())
	until(t, "it asks", func() bool { return f.asks.Load() == 1 })
	time.Sleep(2 * wait) // longer than the wait in any case
	f.redis.Continue()
	expect(t, answers, "<nil>")
	stats := fmt.Sprintf("%s", f.redis.Do("INFO", "commandstats"))
	if calls := regexp.MustCompile(`cmdstat_(?:evalsha|eval):calls=(\d+),\S*failed_calls=0`).FindAllStringSubmatch(stats, -1); len(calls) != 1 || calls[0][1] != "1" {
		t.Errorf("Redis was asked more than once: %q", calls)
	}
}
