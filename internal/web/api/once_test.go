package api

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

// A push with once counts once within its window, even if the job is gone. A repetition is answered with the
// same ID.
func TestOnce(t *testing.T) {
	f := start(t, web.Options{})
	const again = `{"id":"a","topic":"t","body":"b","once":"1h"}`
	const taken = `{"type":"urn:delayer:problem:exists","title":"This ID is taken","status":409,"detail":"a job with this ID exists, or an earlier push of it counts; nothing was changed","id":"a"}`
	f.do("POST", "/v1/jobs", again).expect(201, `{"id":"a","outcome":"created"}`)
	f.do("POST", "/v1/jobs", again).expect(409, taken)
	f.pop("t", "a")
	f.do("POST", "/v1/jobs", again).expect(409, taken)
	f.do("POST", "/v1/jobs/batch", `{"jobs":[`+again+`,{"id":"b","topic":"t","body":"b","once":60}]}`).expect(200, `{"count":1,"complete":false,"results":[
		{"id":"a","outcome":"refused","problem":{"type":"urn:delayer:problem:exists","title":"*","status":409,"detail":"a job with this ID exists, or an earlier push of it counts; nothing was changed"}},
		{"id":"b","outcome":"created"}]}`)
	f.redis.Expect(redistest.State{Ready: map[string][]string{"t": {"b"}}, Buckets: map[string]string{"b": "t b"}, Once: []string{"a", "b"}})
	f.do("DELETE", "/v1/jobs/b", "").expect(200, `{"was":"*"}`)
	f.do("POST", "/v1/jobs", `{"id":"b","topic":"t","body":"b","once":60}`).expect(201, `{"id":"b","outcome":"created"}`)
	if f.pushed["t"] != 3 {
		t.Errorf("pushed %v", f.pushed)
	}
}

// Pushes with debounce make one job, due at the latest the given time after the first push.
func TestDebounce(t *testing.T) {
	f := start(t, web.Options{})
	job := func(body string) string {
		return `{"id":"a","topic":"t","body":"` + body + `","delay":"1h","debounce":"1h"}`
	}
	f.do("POST", "/v1/jobs", job("first")).expect(201, `{"id":"a","outcome":"created"}`)
	first, err := f.Get(t.Context(), "a")
	if err != nil || time.Until(first.Due) > time.Hour+time.Second {
		t.Errorf("%+v, %v", first, err)
	}
	f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","delay":"2h","debounce":"1h"}`).problem(invalid, "/debounce", "", "")
	f.do("POST", "/v1/jobs/batch", `{"jobs":[`+job("second")+`]}`).expect(200, `{"count":1,"complete":true,"results":[{"id":"a","outcome":"replaced"}]}`)
	if second, err := f.Get(t.Context(), "a"); err != nil || second.Body != "second" || !second.Due.Equal(first.Due) {
		t.Errorf("%+v, %v; the first was due %v", second, err, first.Due)
	}
}

// A push with follow leaves a reserved job alone and is delivered after it.
func TestFollow(t *testing.T) {
	f := start(t, web.Options{})
	push := func(body, outcome string) {
		t.Helper()
		f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"`+body+`","if_exists":"follow"}`).expect(201, `{"id":"a","outcome":"`+outcome+`"}`)
	}
	push("first", "created")
	push("second", "replaced")
	delivery, err := f.Reserve(t.Context(), 0, "t")
	check(t, err)
	push("third", "followed")
	push("fourth", "followed")
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"reserved","lease_ends":"*","ttl":"*","attempts":1,"followed":true,"body":"second"}`)
	check(t, delivery.Ack(t.Context()))
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"ready","ttl":"*","attempts":0,"body":"fourth"}`)
}

// Pushes of one group make one job, and each answer has its ID. A push with once or an Idempotency-Key
// can be repeated.
func TestGroup(t *testing.T) {
	f := start(t, web.Options{})
	push := func(body, more string) string {
		return `{"topic":"t","body":"` + body + `","group":"k","group_max":4,"group_longest":"1h"` + more + `}`
	}
	for i, outcome := range []string{"created", "added"} {
		r := f.do("POST", "/v1/jobs", push(fmt.Sprint(i), ""))
		r.expect(201, `{"id":"*","outcome":"`+outcome+`"}`)
		if at := r.header.Get("Location"); !strings.HasPrefix(at, "/v1/jobs/%7Bt:k%7D") {
			t.Errorf("Location %q", at)
		}
	}
	f.keyed(push("2", ""), "key").expect(201, `{"id":"*","outcome":"added"}`)
	f.keyed(push("2", ""), "key").expect(200, `{"id":"key:key","outcome":"refused"}`)
	f.do("POST", "/v1/jobs/batch", `{"jobs":[`+push(`{}`, `,"id":"a","once":60`)+`,{"id":"b","topic":"u","body":"b"}]}`).expect(200, `{"count":2,"complete":true,"results":[
		{"id":"*","outcome":"added"},
		{"id":"b","outcome":"created"}]}`)
	f.do("POST", "/v1/jobs", push(`{}`, `,"id":"a","once":60`)).problem(exists, "", "", "")
	m, err := f.Pop(t.Context(), "t")
	if err != nil || m.Body != "[0,1,2,{}]" {
		t.Errorf("got %v, %v", m, err)
	}
}

// The answer contains the push's outcome.
func TestOutcome(t *testing.T) {
	f := start(t, web.Options{})
	for _, push := range []struct{ fields, outcome string }{
		{`"delay":60`, "created"}, {`"delay":60`, "replaced"}, {`"delay":3600,"if_exists":"keep_earlier"`, "kept"}, {`"delay":3600,"if_exists":"keep_later"`, "replaced"},
	} {
		f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b",`+push.fields+`}`).expect(201, `{"id":"a","outcome":"`+push.outcome+`"}`)
	}
}

// keyed sends a push with these keys.
func (f *fixture) keyed(body string, keys ...string) reply {
	f.t.Helper()
	r := f.request("POST", "/v1/jobs", body)
	r.Header[IdempotencyKey] = keys
	return f.send(r)
}

// A push with an Idempotency-Key can be repeated, even after its job is gone: it succeeds with the same ID
// and changes nothing.
func TestIdempotencyKey(t *testing.T) {
	f := start(t, web.Options{})
	const job = `{"topic":"t","body":"b"}`
	expect := func(r reply, status int, outcome string) {
		t.Helper()
		r.expect(status, `{"id":"key:k 1/2","outcome":"`+outcome+`"}`)
		if at := r.header.Get("Location"); at != "/v1/jobs/key:k%201%2F2" {
			t.Errorf("Location %q", at)
		}
	}
	expect(f.keyed(job, "k 1/2"), 201, "created")
	expect(f.keyed(job, "k 1/2"), 200, "refused")
	f.pop("t", "key:k 1/2")
	expect(f.keyed(job, `"k 1/2"`), 200, "refused") // the same key in the draft's format
	f.redis.Expect(redistest.State{Once: []string{"key:k 1/2"}})
	if f.pushed["t"] != 1 {
		t.Errorf("pushed %v", f.pushed)
	}
	f.keyed(job, "K 1/2").expect(201, `{"id":"key:K 1/2","outcome":"created"}`)
}

// While a key is remembered, a different push with it is refused. The format of the JSON, and fields that
// only affect the answer, make no difference.
func TestIdempotencyKeyOfAnotherPush(t *testing.T) {
	f := start(t, web.Options{})
	job := func(fields string) string { return `{"topic":"t","body":"b",` + fields + `}` }
	const due = `"due":"2099-01-31T08:30:00Z"`
	for _, c := range []struct {
		first       string
		same, other []string
	}{
		{`{"topic":"t","body":"b"}`, []string{`{"body_base64":"Yg==","topic_base64":"dA=="}`, job(`"replicas":1,"replicas_timeout":"1ms"`)},
			[]string{`{"topic":"t","body":"c"}`, `{"topic":"u","body":"b"}`, job(`"delay":1`), job(`"lease":1`), job(`"once":"23h"`), job(due)}},
		{job(`"delay":"1h30m"`), []string{job(`"delay":5400`), job(`"delay":"90m"`)}, []string{job(`"delay":5401`), `{"topic":"t","body":"b"}`}},
		{job(due), []string{job(`"due":"2099-01-31T09:30:00+01:00"`)}, []string{job(`"due":"2099-01-31T08:30:01Z"`)}},
		{`{"topic":"t","body_base64":"/w=="}`, nil, []string{`{"topic":"t","body_base64":"/g=="}`, `{"topic":"t","body":"\ufffd"}`}},
		{job(`"headers":{"a":"1","b":"2"}`), []string{job(`"headers":{"b":"2","a":"\u0031"}`)}, []string{job(`"headers":{"a":"1"}`), `{"topic":"t","body":"b"}`}},
		{`{"topic":"t","body":"1","group":"k","group_quiet":"1h"}`, nil, []string{`{"topic":"t","body":"2","group":"k","group_quiet":"1h"}`}},
	} {
		f.redis.Flush()
		if r := f.keyed(c.first, "k"); r.status != 201 {
			t.Fatalf("%s: %d", c.first, r.status)
		}
		stored := f.redis.State()
		for _, same := range append(c.same, c.first) {
			f.keyed(same, "k").expect(200, `{"id":"key:k","outcome":"refused"}`)
		}
		for _, other := range c.other {
			f.keyed(other, "k").expect(422, `{"type":"urn:delayer:problem:key-reused","title":"The Idempotency-Key was used for another request","status":422,
				"detail":"nothing was changed: an earlier push with this key had other content","parameter":"Idempotency-Key","id":"key:k"}`)
		}
		f.redis.Expect(stored)
	}

	// The same holds after the job is gone, until the key expires.
	f.redis.Flush()
	f.keyed(`{"topic":"t","body":"b"}`, "k").expect(201, `{"id":"key:k","outcome":"created"}`)
	f.pop("t", "key:k")
	f.keyed(`{"topic":"t","body":"c"}`, "k").problem(reused, "", IdempotencyKey, "other content")
	f.do("DELETE", "/v1/jobs/key:k", "").problem(notFound, "", "", "")
	f.keyed(`{"topic":"t","body":"c"}`, "k").expect(201, `{"id":"key:k","outcome":"created"}`)
	f.keyed(`{"topic":"t","body":"b"}`, "k").problem(reused, "", IdempotencyKey, "other content")
	if ttl := f.redis.Do("PTTL", "delayer:once_content:key:k").(int64); ttl < 86_000_000 || ttl > 86_400_000 {
		t.Errorf("what the push said is kept for %d ms", ttl)
	}
}

// Simultaneous requests make one push.
func TestIdempotencyKeyAtOnce(t *testing.T) {
	f := start(t, web.Options{})
	const requests = 10
	status := make(chan int, requests)
	for range requests {
		go func() { status <- f.keyed(`{"topic":"t","body":"b"}`, "k").status }()
	}
	count := map[int]int{}
	for range requests {
		count[redistest.Receive(t, status)]++
	}
	if count[http.StatusCreated] != 1 || count[http.StatusOK] != requests-1 {
		t.Errorf("statuses %v", count)
	}
	if ready := f.redis.Queue("t"); len(ready) != 1 {
		t.Errorf("ready are %q", ready)
	}
}

// A key is remembered for 24 h, or for the duration in once.
func TestIdempotencyKeysWindow(t *testing.T) {
	f := start(t, web.Options{})
	window := func() time.Duration {
		return time.Duration(f.redis.Do("PTTL", "delayer:once").(int64)) * time.Millisecond
	}
	f.keyed(`{"topic":"t","body":"b","once":"1h"}`, "short").expect(201, `{"id":"key:short","outcome":"created"}`)
	if w := window(); w > time.Hour || w < 59*time.Minute {
		t.Errorf("once 1h: %v", w)
	}
	f.keyed(`{"topic":"t","body":"b"}`, "usual").expect(201, `{"id":"key:usual","outcome":"created"}`)
	if w := window(); w > 24*time.Hour || w < 24*time.Hour-time.Minute {
		t.Errorf("without once: %v", w)
	}
}

// Malformed keys, and fields that conflict with a key, are refused and change nothing.
func TestBadIdempotencyKeys(t *testing.T) {
	f := start(t, web.Options{})
	const job = `{"topic":"t","body":"b"}`
	f.keyed(job, strings.Repeat("k", 255)).expect(201, `{"id":"*","outcome":"created"}`)
	f.pop("t", "key:"+strings.Repeat("k", 255))
	for _, key := range []string{"", `""`, `"`, `"k`, `k"`, `k"k`, `"k"k"`, `k\k`, "kä", "k\tk", strings.Repeat("k", 256), `"` + strings.Repeat("k", 256) + `"`} {
		f.keyed(job, key).problem(invalid, "", IdempotencyKey, "255 characters")
	}
	f.keyed(job, "k", "k").problem(badRequest, "", IdempotencyKey, "2 times")
	f.keyed(`{"id":"a","topic":"t","body":"b"}`, "k").problem(invalid, "", IdempotencyKey, "one of the two")
	f.keyed(`{"id_base64":"/w==","topic":"t","body":"b"}`, "k").problem(invalid, "", IdempotencyKey, "one of the two")
	f.keyed(`{"topic":"t","body":"b","if_exists":"replace"}`, "k").problem(invalid, "/if_exists", "", "not go together with once")
	f.keyed(`{"topic":"t","body":"b","debounce":1}`, "k").problem(invalid, "/debounce", "", "not go together with once")
	batch := f.request("POST", "/v1/jobs/batch", `{"jobs":[`+job+`]}`)
	batch.Header.Set(IdempotencyKey, "k")
	f.send(batch).problem(invalid, "", IdempotencyKey, "once")
	if ready := f.redis.Queue("t"); len(ready) > 0 {
		t.Errorf("stored are %q", ready)
	}
}

// pop pops the topic's next job and checks its ID.
func (f *fixture) pop(topic, id string) {
	f.t.Helper()
	if m, err := f.Pop(f.t.Context(), topic); err != nil || !reflect.DeepEqual(m, client.Message{ID: id, Topic: topic, Body: "b"}) {
		f.t.Fatalf("%+v, %v, want %s", m, err, id)
	}
}
