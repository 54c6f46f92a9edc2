package longpoll

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

const hangBound = redistest.HangBound

// fixture is a front whose requests wait for jobs of topic t, or of that which they name, for as long as
// their path says.
type fixture struct {
	redis  *redistest.Server
	client *client.Client
	poller *Poller
	front  *web.Front
	addr   string
	stop   func()       // the front
	asks   atomic.Int32 // requests that have come
}

func start(t *testing.T, o client.PoolOptions) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{redis: redistest.Start(t), addr: l.Addr().String()}
	o.Addr = f.redis.Addr
	f.client = client.OpenPool(o)
	f.poller = New(f.client, func(err error) { t.Error(err) })
	f.front = web.New(web.Options{}, web.Area{Patterns: []string{"/"}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wait, _ := time.ParseDuration(r.URL.Path[1:])
		f.asks.Add(1)
		o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: cmp.Or(r.URL.Query().Get("topic"), "t")}}, Max: 2, Lease: time.Hour}
		f.poller.Reserve(w, r, o, wait, func(w http.ResponseWriter, _ *http.Request, jobs []*client.Delivery, err error) error {
			for _, d := range jobs {
				fmt.Fprint(w, d.ID, " ")
			}
			_, err = fmt.Fprint(w, err)
			return err
		})
	})})
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- f.front.Serve(ctx, l) }()
	f.stop = sync.OnceFunc(func() {
		cancel()
		<-served
	})
	t.Cleanup(func() {
		f.stop()
		f.client.Close()
	})
	return f
}

// ask sends a request that waits so long; what answers it comes through the channel.
func (f *fixture) ask(t *testing.T, wait string) <-chan string {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n", wait)
	answers := make(chan string, 1)
	go func() {
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			answers <- err.Error()
			return
		}
		text, _ := io.ReadAll(answer.Body)
		answers <- string(text)
	}()
	return answers
}

func expect(t *testing.T, answers <-chan string, want string) {
	t.Helper()
	select {
	case got := <-answers:
		if got != want {
			t.Errorf("answered %q, want %q", got, want)
		}
	case <-time.After(hangBound):
		t.Fatalf("no answer within %v", hangBound)
	}
}

func (f *fixture) push(t *testing.T, ids ...string) {
	t.Helper()
	var jobs []client.Delayed
	for _, id := range ids {
		jobs = append(jobs, client.Delayed{Message: client.Message{ID: id, Topic: "t", Body: "b"}})
	}
	if _, err := f.client.PushBatch(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
}

// until waits for something to become true.
var until = redistest.Until

// What is there is reserved at once, by a request that would wait, and by one that would not, also
// while so many ask that others are detached at once.
func TestReady(t *testing.T) {
	f := start(t, client.PoolOptions{})
	for _, asking := range []int32{0, maxAsking} {
		f.poller.asking.Store(asking)
		for _, wait := range []string{"0s", "1h"} {
			f.push(t, "a", "b", "c")
			expect(t, f.ask(t, wait), "a b <nil>")
			expect(t, f.ask(t, wait), "c <nil>")
		}
		expect(t, f.ask(t, "0s"), "<nil>")
		if got := f.poller.asking.Load(); got != asking {
			t.Errorf("%d are asking, want %d", got, asking)
		}
	}
}

// untilWaiting waits until requests wait for so many topics.
func (f *fixture) untilWaiting(t *testing.T, topics int) {
	t.Helper()
	until(t, fmt.Sprint(topics, " topics are waited for"), func() bool {
		return len(f.redis.Do("PUBSUB", "CHANNELS").([]any)) == topics
	})
}

// A request that waits gets a job when there is one; when its time is over, there is none.
func TestWait(t *testing.T) {
	f := start(t, client.PoolOptions{})
	expect(t, f.ask(t, "1ns"), "<nil>") // Redis was asked all the same
	expect(t, f.ask(t, "200ms"), "<nil>")
	answers := f.ask(t, "1h")
	f.untilWaiting(t, 1)
	f.push(t, "a")
	expect(t, answers, "a <nil>")
}

// While Redis hangs each request is told so, in time, however many wait for the same connection: that
// Redis could not be asked does not mean that there is no job.
func TestRedisHangs(t *testing.T) {
	for _, wait := range []string{"0s", "1ms", "2s"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			f := start(t, client.PoolOptions{MaxActive: 1})
			f.redis.Hang()
			defer f.redis.Resume()
			var all []<-chan string
			for n := range 25 {
				all = append(all, f.ask(t, fmt.Sprint(wait, "?topic=", n)))
			}
			for _, answers := range all {
				select {
				case got := <-answers:
					if !strings.Contains(got, "fetch: ") {
						t.Errorf("answered %q, want the error", got)
					}
				case <-time.After(hangBound):
					t.Fatalf("no answer within %v", hangBound)
				}
			}
		})
	}
}

// When the front stops, who only waits for his turn to ask Redis is answered, though it hangs.
func TestStopWhileAnotherAsks(t *testing.T) {
	for _, wait := range []string{"0s", "1h"} {
		t.Run(wait, func(t *testing.T) {
			t.Parallel()
			f := start(t, client.PoolOptions{ReadTimeout: hangBound})
			if err := f.client.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.redis.Hang()
			defer f.redis.Resume()
			f.ask(t, wait)
			until(t, "the first asks", func() bool { return f.asks.Load() == 1 })
			second := f.ask(t, wait)
			until(t, "the second is behind it", func() bool { return f.asks.Load() == 2 })
			f.stop()
			expect(t, second, "<nil>")
		})
	}
}

// A request that can't be detached is none of those who ask while it waits.
func TestWhoWaitsDoesNotAsk(t *testing.T) {
	f := start(t, client.PoolOptions{})
	r := httptest.NewRequest("GET", "/", nil)
	o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1}
	answered := make(chan string, 1)
	go f.poller.Reserve(httptest.NewRecorder(), r, o, time.Hour, func(_ http.ResponseWriter, _ *http.Request, jobs []*client.Delivery, err error) error {
		answered <- fmt.Sprint(len(jobs), err)
		return nil
	})
	f.untilWaiting(t, 1)
	if n := f.poller.asking.Load(); n != 0 {
		t.Errorf("%d are asking", n)
	}
	f.push(t, "a")
	expect(t, answered, "1 <nil>")
}

// A request that waits costs one goroutine, that which notices when its client hangs up.
func TestWaitCostsOneGoroutine(t *testing.T) {
	const polls = 300
	f := start(t, client.PoolOptions{})
	before := runtime.NumGoroutine()
	for n := range polls {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /1h?topic=%d HTTP/1.1\r\nHost: localhost\r\n\r\n", n)
	}
	f.untilWaiting(t, polls)
	until(t, "each has one goroutine", func() bool { return runtime.NumGoroutine()-before < polls+polls/10 })
}

// Jobs whose answer can't be written are given back in their order, those of each topic, and their
// attempts do not count.
func TestGivenBackInOrder(t *testing.T) {
	f := start(t, client.PoolOptions{})
	f.push(t, "a", "b", "c", "d")
	o := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 3}
	f.poller.Reserve(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil), o, 0, func(_ http.ResponseWriter, _ *http.Request, jobs []*client.Delivery, err error) error {
		if len(jobs) != 3 || err != nil {
			t.Errorf("got %d jobs, %v", len(jobs), err)
		}
		return io.ErrShortWrite
	})
	for _, id := range []string{"a", "b", "c", "d"} {
		d, err := f.client.Reserve(t.Context(), hangBound, 0, "t")
		if err != nil || d.ID != id || d.Attempt != 1 {
			t.Errorf("got %s at attempt %d, %v; want %s at its first", d.ID, d.Attempt, err, id)
		}
	}
}

// Who has waited long enough while Redis was asked for the first time does not wait once more.
func TestSlowFirstLook(t *testing.T) {
	f := start(t, client.PoolOptions{})
	if err := f.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	const wait = 100 * time.Millisecond
	f.redis.Hang()
	answers := f.ask(t, wait.String())
	until(t, "it asks", func() bool { return f.poller.asking.Load() == 1 })
	time.Sleep(2 * wait) // so that the time is over in any case
	f.redis.Resume()
	expect(t, answers, "<nil>")
	stats := fmt.Sprintf("%s", f.redis.Do("INFO", "commandstats"))
	if calls := regexp.MustCompile(`cmdstat_(?:evalsha|eval):calls=(\d+),\S*failed_calls=0`).FindAllStringSubmatch(stats, -1); len(calls) != 1 || calls[0][1] != "1" {
		t.Errorf("Redis was asked more than once: %q", calls)
	}
}

// As many as may ask before they are detached do, and no more.
func TestManyAsk(t *testing.T) {
	f := start(t, client.PoolOptions{ReadTimeout: hangBound})
	if err := f.client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.redis.Hang()
	defer f.redis.Resume()
	f.poller.asking.Store(maxAsking)
	f.ask(t, "1h")
	until(t, "one too many is detached", func() bool { return f.front.Counts().Waiting == 1 })
	if n := f.poller.asking.Load(); n != maxAsking {
		t.Errorf("%d ask", n)
	}
	f.poller.asking.Store(maxAsking - 1)
	f.ask(t, "1h")
	until(t, "the last one asks", func() bool { return f.poller.asking.Load() == maxAsking })
	if n := f.front.Counts().Waiting; n != 1 {
		t.Errorf("%d wait", n)
	}
}
