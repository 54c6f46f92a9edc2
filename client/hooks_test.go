package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// seen are the calls that hooks have seen, as texts.
type seen struct {
	mu    sync.Mutex
	begun int
	done  []string
}

type seenKey struct{}

// hooks returns hooks that record each call when it is done.
func (s *seen) hooks() client.Hooks {
	hook := func(kind string) client.Hook {
		return func(ctx context.Context, call *client.Call) (context.Context, func()) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.begun++
			return context.WithValue(ctx, seenKey{}, kind), func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.done = append(s.done, kind+" "+callText(call))
			}
		}
	}
	return client.Hooks{Push: hook("push"), Deliver: hook("deliver"), Settle: hook("settle"), Handle: hook("handle")}
}

// take returns the calls since the last take, and checks that each that has begun is done.
func (s *seen) take(t testing.TB) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.done
	if s.begun != len(done) {
		t.Errorf("%d calls have begun, done are %q", s.begun, done)
	}
	s.begun, s.done = 0, nil
	return done
}

var kindsOfErrors = map[error]string{
	client.ErrEmpty: "empty", client.ErrExists: "exists", client.ErrLeaseLost: "lost lease", client.ErrExhausted: "exhausted",
	client.ErrInvalid: "invalid", client.ErrClosed: "closed", client.ErrOtherFailed: "other failed", context.Canceled: "canceled",
}

// callText returns a call as "operation [topics]: topic/id outcome error, …: error". IDs that the Client makes are *.
func callText(call *client.Call) string {
	var b strings.Builder
	b.WriteString(call.Operation)
	if call.Topics != nil {
		fmt.Fprint(&b, " ", call.Topics)
	}
	for i, job := range call.Jobs {
		id := job.ID
		if len(id) == 32 || strings.HasPrefix(id, "{") {
			id = "*"
		}
		fmt.Fprintf(&b, "%s %s/%s", []string{":", ","}[min(i, 1)], job.Topic, id)
		for _, part := range []string{string(job.Outcome), errorText(job.Err)} {
			if part != "" {
				b.WriteString(" " + part)
			}
		}
	}
	if text := errorText(call.Err); text != "" {
		b.WriteString("; " + text)
	}
	return b.String()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	for kind, text := range kindsOfErrors {
		if errors.Is(err, kind) {
			return text
		}
	}
	return "error"
}

type hookedCall struct {
	name string
	call func(ctx context.Context, f *fixture, c *client.Client)
	want []string
}

// hooked are calls, and what hooks see of them. The first for each method has its name.
var hooked = []hookedCall{
	{"Push", func(ctx context.Context, f *fixture, c *client.Client) {
		c.Push(ctx, client.Message{Topic: "t", Body: "1"}, time.Hour)
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, time.Hour)
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, time.Hour)
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 2*time.Hour, client.IfExists(client.KeepEarlier()))
	}, []string{"push push: t/* created", "push push: t/a created", "push push: t/a replaced", "push push: t/a kept"}},
	{"Push, refused", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, time.Hour, client.IfExists(client.Refuse()))
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, time.Hour, client.IfExists(client.Once(time.Hour)))
	}, []string{"push push: t/a refused exists; exists", "push push: t/a refused exists; exists"}},
	{"Push, wrong", func(ctx context.Context, f *fixture, c *client.Client) {
		c.Push(ctx, client.Message{ID: "a", Topic: "t"}, time.Hour)
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 1)
		ended, cancel := context.WithCancel(ctx)
		cancel()
		c.Push(ended, client.Message{ID: "a", Topic: "t", Body: "1"}, 0)
	}, []string{"push push: t/a invalid; invalid", "push push: t/a invalid; invalid", "push push: t/a canceled; canceled"}},
	{"Push, broken", func(ctx context.Context, f *fixture, c *client.Client) {
		f.Do("SET", f.keyOf("a", "ready_queue:t"), "x")
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 0)
	}, []string{"push push: t/a error; error"}},
	{"Push to a group", func(ctx context.Context, f *fixture, c *client.Client) {
		for range 2 {
			c.Push(ctx, client.Message{Topic: "t", Body: "1"}, 0, client.Group{Key: "k", Quiet: time.Hour})
		}
	}, []string{"push push: t/* created", "push push: t/* added"}},
	{"Push, follow", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		f.reserve("t")
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "2"}, 0, client.IfExists(client.Follow()))
	}, []string{"push push: t/a followed"}},
	{"PushAt", func(ctx context.Context, f *fixture, c *client.Client) {
		c.PushAt(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, time.Now().Add(time.Hour))
	}, []string{"push push: t/a created"}},
	{"Topic.Push", func(ctx context.Context, f *fixture, c *client.Client) {
		client.Topic[int]("t").Push(ctx, c, 1, 0)
		client.Topic[int]("t").PushAt(ctx, c, 1, time.Now())
	}, []string{"push push: t/* created", "push push: t/* created"}},
	{"PushBatch", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("b", "u")
		c.PushBatch(ctx, batchOf("a", "", "b"), client.IfExists(client.Refuse()))
	}, []string{"push push batch: t/a created, t/* created, t/b refused exists; exists"}},
	{"PushBatch, wrong", func(ctx context.Context, f *fixture, c *client.Client) {
		c.PushBatch(ctx, batchOf("a", "a"))
		c.PushBatch(ctx, nil)
	}, []string{"push push batch: t/a invalid, t/a invalid; invalid", "push push batch"}},
	{"Pop", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.Pop(ctx, "t")
		c.Pop(ctx, "t")
		c.Pop(ctx, "")
	}, []string{"deliver pop [t]: t/a", "deliver pop [t]; empty", "deliver pop []; invalid"}},
	{"BPop", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.BPop(ctx, 0, "u", "t")
		c.BPop(ctx, time.Millisecond, "t")
		ended, cancel := context.WithCancel(ctx)
		r := f.waiter(ended, c, "t")
		cancel()
		<-r
	}, []string{"deliver bpop [u t]: t/a", "deliver bpop [t]; empty", "deliver bpop [t]; canceled"}},
	{"Reserve", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.Reserve(ctx, 0, "t")
		ended, cancel := context.WithCancel(ctx)
		cancel()
		c.Reserve(ended, 0, "t")
	}, []string{"deliver reserve [t]: t/a", "deliver reserve [t]; canceled"}},
	{"Fetch of several jobs", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("{x}a", "t")
		f.push("{x}b", "t")
		c.Fetch(ctx, clienttest.Ready("t", 5, 0))
		f.push("{x}c", "t")
		c.Fetch(ctx, clienttest.Popped("t", 5))
		c.Fetch(ctx, clienttest.Popped("t", 251))
	}, []string{"deliver fetch [t]: t/*, t/*", "deliver fetch [t]: t/*", "deliver fetch; invalid"}},
	{"Fetch", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("t", "u"), Max: 5})
		c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("t", "u"), Max: 5, NoWait: true})
	}, []string{"deliver fetch [t u]: t/a", "deliver fetch [t u]; empty"}},
	{"Ack", settleWith(verbs["Ack"]), []string{"settle ack: t/a", "settle ack: t/a lost lease; lost lease"}},
	{"Retry", settleWith(verbs["Retry"]), []string{"settle retry: t/a", "settle retry: t/a lost lease; lost lease"}},
	{"Release", settleWith(verbs["Release"]), []string{"settle release: t/a", "settle release: t/a lost lease; lost lease"}},
	{"Bury", settleWith(verbs["Bury"]), []string{"settle bury: t/a", "settle bury: t/a lost lease; lost lease"}},
	{"Extend", settleWith(verbs["Extend"]), []string{"settle extend: t/a", "settle extend: t/a"}},
	{"Retry, the last", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t", client.JobOptions{MaxAttempts: 1})
		f.hookedDelivery(c).Retry(ctx, 0, nil)
	}, []string{"deliver reserve [t]: t/a", "settle retry: t/a exhausted; exhausted"}},
	{"AckBatch", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.AckBatch(ctx, []*client.Delivery{f.hookedDelivery(c), c.Delivery("t", "b", 5)})
		c.AckBatch(ctx, []*client.Delivery{nil})
	}, []string{"deliver reserve [t]: t/a", "settle ack batch: t/a, t/b lost lease; lost lease", "settle ack batch: / invalid; invalid"}},
	{"ExtendBatch", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		c.ExtendBatch(ctx, []*client.Delivery{f.hookedDelivery(c), c.Delivery("t", "b", 5)}, time.Hour)
	}, []string{"deliver reserve [t]: t/a", "settle extend batch: t/a, t/b lost lease; lost lease"}},
	{"Handling", func(ctx context.Context, f *fixture, c *client.Client) {
		handling, done := c.Delivery("t", "b", 5).Handling(ctx)
		if handling.Value(seenKey{}) != "handle" {
			f.TB.Error("the handler's context is not the hook's")
		}
		done(context.Canceled)
	}, []string{"handle handle: t/b canceled; canceled"}},
	{"Schedule", func(ctx context.Context, f *fixture, c *client.Client) { // whose jobs no client pushes
		c.Schedules().Set(ctx, client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "1"})
		_, err := c.Schedules().Run(ctx, "s")
		check(f.TB, err)
	}, nil},
	{"a closed Client", func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		d := f.hookedDelivery(c)
		c.Close()
		c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 0)
		c.Pop(ctx, "t")
		d.Ack(ctx)
	}, []string{"deliver reserve [t]: t/a", "push push: t/a closed; closed", "deliver pop [t]; closed", "settle ack: t/a closed; closed"}},
}

// batchOf returns jobs of topic t that are ready at once.
func batchOf(ids ...string) (jobs []client.Item) {
	for _, id := range ids {
		jobs = append(jobs, client.Item{Message: client.Message{ID: id, Topic: "t", Body: "1"}})
	}
	return jobs
}

func (f *fixture) hookedDelivery(c *client.Client) *client.Delivery {
	f.TB.Helper()
	d, err := c.Reserve(f.TB.Context(), time.Minute, "t")
	check(f.TB, err)
	return d
}

// settleWith settles a delivery twice.
func settleWith(verb func(context.Context, *client.Delivery) error) func(context.Context, *fixture, *client.Client) {
	return func(ctx context.Context, f *fixture, c *client.Client) {
		f.push("a", "t")
		d := f.reserve("t")
		d = c.Delivery("t", "a", d.Token)
		verb(ctx, d)
		verb(ctx, d)
	}
}

// Hooks see each call that pushes, delivers or settles exactly once, with its result.
func TestHooks(t *testing.T) {
	f := start(t)
	for _, call := range hooked {
		t.Run(call.name, func(t *testing.T) {
			f := f.with(t)
			f.Flush()
			var s seen
			c := f.open(client.WithHooks(s.hooks()))
			call.call(t.Context(), f, c)
			if got := s.take(t); !slices.Equal(got, call.want) {
				t.Errorf("hooks have seen\n%q, want\n%q", got, call.want)
			}
		})
	}
}

// Each method of Client and Delivery is either tested in TestHooks or known to have no hooks.
func TestHooksOfAllMethods(t *testing.T) {
	without := strings.Fields("Calm Checks Connections Polls Pushes PushesToGroups Settlements SubscribeAgain WarmUp" + // for tests
		" Close Ping Dead Requeue RequeueAll DropAll" +
		" Get Remove RemoveUnlessReserved Reschedule SetLimit Pause Throttle Resume Paused Schedules Stats Topics Delivery Deadline Lease")
	for _, of := range []reflect.Type{reflect.TypeFor[*client.Client](), reflect.TypeFor[*client.Delivery]()} {
		for i := range of.NumMethod() {
			name := of.Method(i).Name
			tested := slices.ContainsFunc(hooked, func(c hookedCall) bool { return c.name == name })
			if !tested && !slices.Contains(without, name) {
				t.Errorf("%v.%s: add it to hooked, or to the methods without hooks", of, name)
			}
		}
	}
}

// The hooks of several WithHooks are nested. A hook that returns nothing changes nothing, and one that panics is
// logged, and harms nothing else.
func TestSeveralHooks(t *testing.T) {
	f := start(t)
	var log bytes.Buffer
	var order []string
	hook := func(name string) client.Hooks {
		return client.Hooks{Push: func(ctx context.Context, _ *client.Call) (context.Context, func()) {
			order = append(order, fmt.Sprint(name, " in ", ctx.Value(seenKey{})))
			return context.WithValue(ctx, seenKey{}, name), func() { order = append(order, name+" done") }
		}}
	}
	c := f.open(client.WithLogger(slog.New(slog.NewTextHandler(&log, nil))), client.WithHooks(hook("first")),
		client.WithHooks(client.Hooks{Push: func(context.Context, *client.Call) (context.Context, func()) { return nil, nil }}),
		client.WithHooks(client.Hooks{Push: func(context.Context, *client.Call) (context.Context, func()) { panic("one") }}),
		client.WithHooks(client.Hooks{Push: func(context.Context, *client.Call) (context.Context, func()) { return nil, func() { panic("two") } }}),
		client.WithHooks(hook("last")))
	pushed, err := c.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "1"}, 0)
	if pushed.ID != "a" || err != nil {
		t.Errorf("Push = %+v, %v", pushed, err)
	}
	if want := []string{"first in <nil>", "last in first", "last done", "first done"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
	if text := log.String(); strings.Count(text, "a hook has panicked") != 2 || !strings.Contains(text, "panic=one") || !strings.Contains(text, "panic=two") {
		t.Errorf("log:\n%s", text)
	}
	if m, err := c.Pop(t.Context(), "t"); m.ID != "a" || err != nil {
		t.Errorf("Pop without a hook = %v, %v", m, err)
	}
}

// A hook adds headers to each job of a push, and leaves the caller's alone. A job whose headers become invalid is refused.
func TestHooksAddHeaders(t *testing.T) {
	f := start(t)
	name := "trace"
	c := f.open(client.WithHooks(client.Hooks{Push: func(_ context.Context, call *client.Call) (context.Context, func()) {
		for i := range call.Jobs {
			job := &call.Jobs[i]
			if job.Headers == nil {
				job.Headers = map[string]string{}
			}
			job.Headers[name], job.Body, job.Topic = fmt.Sprint(i), "another", "another"
		}
		return nil, nil
	}}))
	own := map[string]string{"tenant": "x"}
	message := func(id string, headers map[string]string) client.Message {
		return client.Message{ID: id, Topic: "t", Body: "1", Headers: headers}
	}
	jobs := []client.Item{{Message: message("a", own)}, {Message: message("b", nil)}}
	_, err := c.PushBatch(t.Context(), jobs)
	check(t, err)
	_, err = c.Push(t.Context(), message("c", own), 0)
	check(t, err)
	for id, want := range map[string]client.Message{
		"a": message("a", map[string]string{"tenant": "x", "trace": "0"}), "b": message("b", map[string]string{"trace": "1"}),
		"c": message("c", map[string]string{"tenant": "x", "trace": "0"}),
	} {
		if job, err := f.Get(t.Context(), id); err != nil || !reflect.DeepEqual(job.Message, want) {
			t.Errorf("%s is %+v, %v, want %+v", id, job, err, want)
		}
	}
	if len(own) != 1 || jobs[1].Headers != nil {
		t.Errorf("the caller's headers are %v and %v now", own, jobs[1].Headers)
	}
	name = "no name"
	expectErr(t, "Push", errOf(c.Push(t.Context(), message("d", nil), 0)), client.ErrInvalid)
}

// A hook sees what a consumer gets: the content, the attempt and the lateness, known for jobs that are reserved first.
func TestHooksSeeDeliveries(t *testing.T) {
	f := start(t)
	var jobs []client.CallJob
	c := f.open(client.WithHooks(client.Hooks{Deliver: func(_ context.Context, call *client.Call) (context.Context, func()) {
		return nil, func() { jobs = append(jobs, call.Jobs...) }
	}}))
	f.push("a", "t")
	d := f.hookedDelivery(c)
	check(t, d.Retry(t.Context(), 0, nil))
	f.hookedDelivery(c)
	f.push("b", "u")
	_, err := c.Pop(t.Context(), "u")
	check(t, err)
	if len(jobs) != 3 || jobs[0].Body != "body" || jobs[0].Attempt != 1 || jobs[0].LateBy != d.LateBy || d.LateBy < 0 ||
		jobs[1].Attempt != 2 || jobs[1].LateBy != -1 || jobs[2].ID != "b" || jobs[2].Attempt != 0 || jobs[2].LateBy != -1 {
		t.Errorf("hooks have seen %+v", jobs)
	}
}
