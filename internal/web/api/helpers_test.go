package api

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// fixture is a server with the API on a private Redis.
type fixture struct {
	*client.Client
	redis *redistest.Server
	url   string
	stop  func() // stops the HTTP server
	t     testing.TB

	mu     sync.Mutex
	pushed map[string]int
	failed []error
}

func start(t testing.TB, o web.Options) *fixture {
	t.Helper()
	return startOf(t, o, 1)
}

// startOf is start with several partitions.
func startOf(t testing.TB, o web.Options, partitions int) *fixture {
	t.Helper()
	f := &fixture{redis: redistest.Start(t), t: t, pushed: map[string]int{}}
	f.serve(client.PoolOptions{Addr: f.redis.Addr, Partitions: partitions}, o)
	return f
}

// serve starts the HTTP server on a Redis with the given options.
func (f *fixture) serve(p client.PoolOptions, o web.Options) {
	f.t.Helper()
	r := redistest.Must(client.Connect(p))
	f.Client = redistest.Must(client.New(r))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(f.t, err)
	f.url = "http://" + l.Addr().String()
	area := New(f.Client, inspect.New(clienttest.Jobs(r, "")), Options{MaxBody: 64 << 10, MaxWait: time.Minute, Pushed: f.count, Failed: f.fail})
	f.t.Cleanup(func() {
		f.Client.Close()
		r.Close()
		f.expectFailures(0)
	})
	f.stop = redistest.Background(f.t, func(ctx context.Context) error { return web.New(o, area).Serve(ctx, l) })
}

func (f *fixture) count(topic string, jobs int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pushed[topic] += jobs
}

func (f *fixture) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = append(f.failed, err)
}

// failures returns and clears the errors passed to Failed. The test fails if any are left when it ends.
func (f *fixture) failures() (failed []error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	failed, f.failed = f.failed, nil
	return failed
}

// expectFailures checks the number of failures.
func (f *fixture) expectFailures(n int) {
	f.t.Helper()
	if failed := f.failures(); len(failed) != n {
		f.t.Errorf("failed: %v, want %d", failed, n)
	}
}

// reply is the server's answer.
type reply struct {
	status int
	header http.Header
	body   string
	t      testing.TB
}

// do sends a request, with a JSON body if not empty.
func (f *fixture) do(method, path, body string) reply {
	f.t.Helper()
	return f.send(f.request(method, path, body))
}

func (f *fixture) request(method, path, body string) *http.Request {
	f.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequest(method, f.url+path, reader)
	check(f.t, err)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

func (f *fixture) send(r *http.Request) reply {
	f.t.Helper()
	once := http.Client{Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := once.Do(r)
	check(f.t, err)
	return f.read(response)
}

func (f *fixture) read(response *http.Response) reply {
	f.t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(f.t, err)
	return reply{response.StatusCode, response.Header, string(body), f.t}
}

// expect checks the status and the JSON body, in which "*" matches any value; "" means no body.
func (r reply) expect(status int, want string) reply {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d: %s, want %d", r.status, r.body, status)
	}
	if want == "" {
		if r.body != "" {
			r.t.Errorf("body %s, want none", r.body)
		}
		return r
	}
	var got, wanted any
	check(r.t, json.Unmarshal([]byte(want), &wanted))
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || !reflect.DeepEqual(got, filled(wanted, got)) {
		r.t.Errorf("got  %s\nwant %s", r.body, want)
	}
	return r
}

// filled returns want with each "*" replaced by the value in got.
func filled(want, got any) any {
	switch want := want.(type) {
	case string:
		if want == "*" {
			return got
		}
	case map[string]any:
		values, _ := got.(map[string]any)
		for name := range want {
			want[name] = filled(want[name], values[name])
		}
	case []any:
		values, _ := got.([]any)
		for i := range min(len(want), len(values)) {
			want[i] = filled(want[i], values[i])
		}
	}
	return want
}

// problem checks the kind of problem, its field and parameter, and that its detail contains the text.
func (r reply) problem(k *kind, field, parameter, detail string) reply {
	r.t.Helper()
	var got struct{ Type, Title, Detail, Field, Parameter string }
	err := json.Unmarshal([]byte(r.body), &got)
	if err != nil || r.status != k.status || got.Type != "urn:delayer:problem:"+k.name || got.Title != k.title || got.Field != field || got.Parameter != parameter ||
		!strings.Contains(got.Detail, detail) || r.header.Get("Content-Type") != "application/problem+json" {
		r.t.Errorf("%d %s: %s\nwant %s with field %q, parameter %q, detail %q", r.status, r.header.Get("Content-Type"), r.body, k.name, field, parameter, detail)
	}
	return r
}

// deliveries returns the deliveries of a reserve.
func (r reply) deliveries() (list []struct {
	ID      string
	Topic   string
	Token   json.Number
	Attempt int
}) {
	r.t.Helper()
	var got struct{ Deliveries json.RawMessage }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK {
		r.t.Fatalf("%d %s", r.status, r.body)
	}
	check(r.t, json.Unmarshal(got.Deliveries, &list))
	return list
}

// ids returns the IDs of a list of jobs.
func (r reply) ids() string {
	r.t.Helper()
	var got struct{ Jobs []struct{ ID string } }
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || r.status != http.StatusOK {
		r.t.Fatalf("%d %s", r.status, r.body)
	}
	ids := make([]string, len(got.Jobs))
	for i, job := range got.Jobs {
		ids[i] = job.ID
	}
	return strings.Join(ids, " ")
}

const hangBound = redistest.HangBound

var check, until = redistest.Check, redistest.Until
