package delayqueue

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/server"
)

// hangBound is the time limit of a test.
const hangBound = redistest.HangBound

// fixture is a server with this area on a private Redis, together with a Delayer server.
type fixture struct {
	t      testing.TB
	redis  *redistest.Server
	client *client.Client
	addr   string
	front  *web.Server
	stop   func() // stops the HTTP server
}

// setup has options that tests override.
type setup struct {
	Options
	web web.Options
	// patience is how long Redis may be silent. 0 means long enough for a busy machine.
	patience time.Duration
}

func start(t testing.TB, s setup) *fixture {
	t.Helper()
	f := &fixture{t: t, redis: redistest.Start(t)}
	f.client = redistest.Must(client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, ReadTimeout: cmp.Or(s.patience, hangBound), WriteTimeout: hangBound, MaxActive: 20, MaxIdle: 2}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	f.addr = l.Addr().String()
	t.Cleanup(func() { f.client.Close() })
	redistest.Background(t, clienttest.Server(f.redis.Pool(), server.Options{Interval: 20 * time.Millisecond}).Run)
	f.front = web.New(s.web, New(f.client, s.Options))
	f.stop = redistest.Background(t, func(ctx context.Context) error { return f.front.Serve(ctx, l) })
	return f
}

// with returns the fixture for a subtest.
func (f *fixture) with(t testing.TB) *fixture {
	sub := *f
	sub.t = t
	return &sub
}

// reply is an answer as a client reads it.
type reply struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// expect checks for a success with this data.
func (r reply) expect(t testing.TB, message, data string) {
	t.Helper()
	if r.Code != 0 || r.Message != message || string(r.Data) != data {
		t.Errorf("got code %d, %s, data %.200s; want 0, %s, %.200s", r.Code, r.Message, r.Data, message, data)
	}
}

// fails checks for a failure whose message contains these parts.
func (r reply) fails(t testing.TB, parts ...string) {
	t.Helper()
	if r.Code != 1 || string(r.Data) != "null" {
		t.Errorf("got code %d, %s, data %.200s; want 1 and null", r.Code, r.Message, r.Data)
	}
	rest := r.Message
	for _, part := range parts {
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("message %.300q, want one with %q", r.Message, parts)
		}
		rest = after
	}
}

// send sends a request, with a token if not empty.
func (f *fixture) send(method, path, body, token string) *http.Response {
	f.t.Helper()
	request, err := http.NewRequest(method, "http://"+f.addr+path, strings.NewReader(body))
	check(f.t, err)
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		f.t.Error(err)
		return &http.Response{Body: http.NoBody}
	}
	return response
}

// call posts the body and reads the answer.
func (f *fixture) call(path, body string) reply {
	f.t.Helper()
	return f.read(f.send("POST", path, body, ""))
}

func (f *fixture) read(response *http.Response) (r reply) {
	f.t.Helper()
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Error(err)
	}
	if err := json.Unmarshal(text, &r); err != nil {
		f.t.Errorf("%v: %.200q", err, text)
	}
	if kind := response.Header.Get("Content-Type"); kind != "text/plain; charset=utf-8" {
		f.t.Errorf("Content-Type %q", kind)
	}
	if response.StatusCode != http.StatusOK {
		f.t.Errorf("status %s", response.Status)
	}
	return r
}

// later runs call in the background.
func (f *fixture) later(path, body string) <-chan reply {
	answered := make(chan reply, 1)
	go func() { answered <- f.call(path, body) }()
	return answered
}

// arrives waits for the result of later.
func (f *fixture) arrives(answered <-chan reply) reply {
	f.t.Helper()
	return redistest.Receive(f.t, answered)
}

// request sends a request on a new connection.
func (f *fixture) request(path, body string) *net.TCPConn {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	check(f.t, err)
	f.t.Cleanup(func() { conn.Close() })
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
	return conn.(*net.TCPConn)
}

// answer reads the answer on a connection of request.
func (f *fixture) answer(conn net.Conn) reply {
	f.t.Helper()
	conn.SetReadDeadline(time.Now().Add(hangBound))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	check(f.t, err)
	return f.read(response)
}

// push stores a job that is ready at once, which delay-queue's API can't do.
func (f *fixture) push(id, topic, body string, opts ...client.PushOption) {
	f.t.Helper()
	_, err := f.client.Push(f.t.Context(), client.Message{ID: id, Topic: topic, Body: body}, 0, opts...)
	check(f.t, err)
}

func (f *fixture) is(id string, state client.State) bool {
	f.t.Helper()
	job, err := f.client.Get(f.t.Context(), id)
	check(f.t, err)
	return job.State == state
}

// waits waits until a /pop is waiting for the topic.
func (f *fixture) waits(topic string) {
	f.t.Helper()
	f.redis.AwaitWaiter(topic)
}

var check, until = redistest.Check, redistest.Until
