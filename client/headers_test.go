package client_test

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

type headers = map[string]string

var (
	someHeaders  = headers{"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "Tenant_1.x": "Größe {1} \"注文\"\n<&>\\"}
	otherHeaders = headers{"other": ""}
)

// putWith pushes a job with headers, ready at once or in an hour.
func (f *fixture) putWith(h headers, delay time.Duration, opts ...client.PushOption) {
	f.TB.Helper()
	f.put(client.Message{ID: "a", Topic: "t", Body: "body", Headers: h}, delay, opts...)
}

// The ways to read the headers of job a of topic t.
var (
	popHeaders = func(f *fixture) (headers, error) { m, err := f.Pop(f.TB.Context(), "t"); return m.Headers, err }
	getHeaders = func(f *fixture) (headers, error) { j, err := f.Get(f.TB.Context(), "a"); return j.Headers, err }
)

// burySome makes a dead letter of job a, which has some headers.
func burySome(f *fixture, opts ...client.PushOption) {
	f.TB.Helper()
	f.putWith(someHeaders, 0, opts...)
	check(f.TB, f.reserve("t").Bury(f.TB.Context(), errors.New("no")))
}

// runWith makes a schedule, or changes it, and runs it now.
func (f *fixture) runWith(h headers, overlap string) {
	f.TB.Helper()
	check(f.TB, errOf(f.Schedules().Set(f.TB.Context(), client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "body", Headers: h, Overlap: overlap})))
	check(f.TB, errOf(f.Schedules().Run(f.TB.Context(), "s")))
}

// headersCases are ways to push job a, and to read its headers.
var headersCases = map[string]struct {
	push func(f *fixture)
	read func(f *fixture) (headers, error)
	want headers
}{
	"pop":   {func(f *fixture) { f.putWith(someHeaders, 0) }, popHeaders, someHeaders},
	"empty": {func(f *fixture) { f.putWith(headers{}, 0) }, popHeaders, nil},
	"beside options": {func(f *fixture) { f.putWith(someHeaders, 0, client.JobOptions{MaxAttempts: 7, Lease: time.Minute}) }, func(f *fixture) (headers, error) {
		d := f.reserve("t")
		if d.MaxAttempts != 7 || d.Lease() != time.Minute {
			f.TB.Errorf("%d attempts, a lease of %v", d.MaxAttempts, d.Lease())
		}
		return d.Headers, nil
	}, someHeaders},
	"batches": {func(f *fixture) {
		_, err := f.PushBatch(f.TB.Context(), []client.Item{
			{Message: client.Message{ID: "0", Topic: "t", Body: "body"}}, {Message: client.Message{ID: "a", Topic: "t", Body: "body", Headers: someHeaders}},
			{Message: client.Message{ID: "1", Topic: "t", Body: "body", Headers: otherHeaders}},
		})
		check(f.TB, err)
	}, func(f *fixture) (headers, error) {
		of := map[string]headers{}
		for _, m := range clienttest.All(f.TB, f.Client, clienttest.Popped("t", 10)) {
			of[m.ID] = m.Headers
		}
		if want := (map[string]headers{"0": nil, "a": someHeaders, "1": otherHeaders}); !reflect.DeepEqual(of, want) {
			f.TB.Errorf("got %v, want %v", of, want)
		}
		return of["a"], nil
	}, someHeaders},
	"retry": {func(f *fixture) { f.putWith(someHeaders, 0) }, func(f *fixture) (headers, error) {
		check(f.TB, f.reserve("t").Retry(f.TB.Context(), 0, nil))
		return f.reserve("t").Headers, nil
	}, someHeaders},
	"dead": {func(f *fixture) { burySome(f) }, func(f *fixture) (headers, error) {
		return f.letters("t")[0].Headers, nil
	}, someHeaders},
	"requeue": {func(f *fixture) {
		burySome(f, client.JobOptions{MaxAttempts: 3})
		check(f.TB, f.Requeue(f.TB.Context(), "a"))
	}, func(f *fixture) (headers, error) {
		d := f.reserve("t")
		if d.MaxAttempts != 3 {
			f.TB.Errorf("%d attempts", d.MaxAttempts)
		}
		return d.Headers, nil
	}, someHeaders},
	"reschedule":       {func(f *fixture) { f.putWith(someHeaders, time.Hour); check(f.TB, f.Reschedule(f.TB.Context(), "a", 0)) }, popHeaders, someHeaders},
	"replaced":         {func(f *fixture) { f.putWith(someHeaders, time.Hour); f.putWith(otherHeaders, 0) }, popHeaders, otherHeaders},
	"replaced by none": {func(f *fixture) { f.putWith(someHeaders, time.Hour); f.putWith(nil, time.Hour) }, getHeaders, nil},
	"kept due time": {func(f *fixture) {
		f.putWith(someHeaders, time.Hour)
		f.putWith(otherHeaders, 0, client.IfExists(client.KeepLater()))
	}, getHeaders, otherHeaders},
	"debounced": {func(f *fixture) {
		f.putWith(someHeaders, time.Hour)
		f.putWith(otherHeaders, time.Hour, client.IfExists(client.Debounce(2*time.Hour)))
	}, getHeaders, otherHeaders},
	"once": {func(f *fixture) {
		f.putWith(someHeaders, time.Hour, client.IfExists(client.Once(time.Hour)))
		f.refused(otherHeaders, client.IfExists(client.Once(time.Hour)))
	}, getHeaders, someHeaders},
	"once as":           {func(f *fixture) { f.putWith(someHeaders, time.Hour, client.IfExists(client.OnceAs(time.Hour, "x"))) }, getHeaders, someHeaders},
	"pushed beside one": {func(f *fixture) { f.push("b", "t"); f.putWith(someHeaders, time.Hour) }, getHeaders, someHeaders},
	"follower": {func(f *fixture) {
		f.putWith(someHeaders, 0)
		d := f.reserve("t")
		f.put(client.Message{ID: "a", Topic: "t", Body: "1"}, 0, client.IfExists(client.Follow()))
		f.put(client.Message{ID: "a", Topic: "t", Body: "2", Headers: otherHeaders}, 0, client.IfExists(client.Follow()), client.JobOptions{MaxAttempts: 4})
		if h, err := getHeaders(f); err != nil || !maps.Equal(h, someHeaders) {
			f.TB.Errorf("the followed job has %v, %v", h, err)
		}
		check(f.TB, d.Ack(f.TB.Context()))
	}, func(f *fixture) (headers, error) {
		d := f.reserve("t")
		if d.Body != "2" || d.MaxAttempts != 4 {
			f.TB.Errorf("%+v", d.Message)
		}
		return d.Headers, nil
	}, otherHeaders},
	"follower without": {func(f *fixture) {
		f.putWith(someHeaders, 0)
		d := f.reserve("t")
		f.putWith(nil, 0, client.IfExists(client.Follow()))
		check(f.TB, d.Ack(f.TB.Context()))
	}, popHeaders, nil},
	"group": {func(f *fixture) {
		for _, h := range []headers{someHeaders, otherHeaders} {
			f.put(client.Message{Topic: "t", Body: "1", Headers: h}, 0, client.Group{Key: "k", Max: 2, Longest: time.Hour})
		}
	}, popHeaders, otherHeaders},
	"group, the last one without": {func(f *fixture) {
		for _, h := range []headers{someHeaders, nil} {
			f.put(client.Message{Topic: "t", Body: "1", Headers: h}, 0, client.Group{Key: "k", Max: 2, Longest: time.Hour})
		}
	}, popHeaders, nil},
	"schedule": {func(f *fixture) {
		f.runWith(someHeaders, "allow")
		if s := f.scheduled("s"); !maps.Equal(s.Headers, someHeaders) {
			f.TB.Errorf("the schedule has %v", s.Headers)
		}
	}, popHeaders, someHeaders},
	"occurrence that follows": {func(f *fixture) {
		f.runWith(someHeaders, "follow")
		d := f.reserve("t")
		f.runWith(otherHeaders, "follow")
		check(f.TB, d.Ack(f.TB.Context()))
	}, popHeaders, otherHeaders},
	"replaced by an old client": {func(f *fixture) { // it knows nothing of our fields
		f.putWith(someHeaders, time.Hour)
		f.Do("HMSET", f.bucketOf("a"), "topic", "t", "body", "new")
	}, getHeaders, someHeaders},
	"replaced by an old client after a reserve": {func(f *fixture) {
		f.putWith(someHeaders, 0)
		f.reserve("t")
		f.Do("HMSET", f.bucketOf("a"), "topic", "t", "body", "new")
		f.Do("EXPIRE", f.bucketOf("a"), 3600+7*24*3600)
		f.Do("ZREM", f.keyOf("a", "job_pool"), "a")
		f.Do("LPUSH", f.keyOf("a", "ready_queue:t"), "a")
	}, func(f *fixture) (headers, error) { return f.reserve("t").Headers, nil }, nil},
	"unreadable": {func(f *fixture) { f.push("a", "t"); f.Do("HSET", f.bucketOf("a"), "options", "0 0 604800000 {x") }, popHeaders, nil},
}

// A job's headers come with it, however it is pushed, taken and read; and what follows on it has its own.
func TestHeaders(t *testing.T) {
	f := start(t)
	for name, c := range headersCases {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.Flush()
			c.push(f)
			if got, err := c.read(f); err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
		})
	}
}

// refused pushes a job that must be refused.
func (f *fixture) refused(h headers, o client.PushOption) {
	f.TB.Helper()
	_, err := f.Push(f.TB.Context(), client.Message{ID: "a", Topic: "t", Body: "body", Headers: h}, time.Hour, o)
	expectErr(f.TB, "Push", err, client.ErrExists)
}

// A job without headers and options has the original's two fields only.
func TestNoHeadersNoField(t *testing.T) {
	f := start(t)
	f.putWith(headers{}, time.Hour)
	fields, err := redis.StringMap(f.Do("HGETALL", f.bucketOf("a")), nil)
	if want := (map[string]string{"topic": "t", "body": "body"}); err != nil || !maps.Equal(fields, want) {
		t.Errorf("the bucket has %v, %v", fields, err)
	}
}

func TestHeadersInvalid(t *testing.T) {
	f := start(t)
	for name, c := range map[string]struct {
		headers headers
		says    string
	}{
		"no name":   {headers{"": "x"}, `headers: the name "" is not 1 to 128 letters`},
		"blank":     {headers{"a b": "x"}, `the name "a b"`},
		"long name": {headers{strings.Repeat("n", 129): "x"}, "the name"},
		"not UTF-8": {headers{"a": "\xff"}, "the value of a is not UTF-8"},
		"zero byte": {headers{"a": "x\x00"}, "the value of a"},
		"too large": {headers{"a": strings.Repeat("x", 4089)}, "4097 bytes as JSON, of 4096 at most"},
	} {
		m := client.Message{ID: "a", Topic: "t", Body: "body", Headers: c.headers}
		_, one := f.Push(t.Context(), m, 0)
		_, batch := f.PushBatch(t.Context(), []client.Item{{Message: m}})
		_, schedule := f.Schedules().Set(t.Context(), client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "body", Headers: c.headers})
		for call, err := range map[string]error{"Push": one, "PushBatch": batch, "Schedule": schedule} {
			if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: %v", name, call, err)
			}
		}
	}
	f.Expect(state{})
	f.putWith(headers{"a": strings.Repeat("x", 4088)}, 0)
}
