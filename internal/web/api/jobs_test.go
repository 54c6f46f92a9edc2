package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
)

// The life of a job from its push.
func TestJob(t *testing.T) {
	f := start(t, web.Options{})
	r := f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"<b> & ä","delay":"1h30m","max_attempts":3,"lease":60,"expire_after":"2d"}`)
	r.expect(201, `{"id":"a","outcome":"created"}`)
	if at := r.header.Get("Location"); at != "/v1/jobs/a" {
		t.Errorf("Location %q", at)
	}
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"waiting","due":"*","ttl":"*","attempts":0,"max_attempts":3,"body":"<b> & ä"}`)
	job, err := f.Get(t.Context(), "a")
	if wait := time.Until(job.Due); err != nil || wait < 89*time.Minute || wait > 91*time.Minute || job.TTL < 49*time.Hour || job.TTL > 50*time.Hour {
		t.Errorf("%+v, %v", job, err)
	}
	f.do("POST", "/v1/jobs", `{"id":"a","topic":"u","body":"b"}`).expect(409, `{"type":"urn:delayer:problem:other-topic","title":"This ID is taken by a job of another topic","status":409,
		"detail":"a job of another topic has this ID: it is of \"t\", and the push is to \"u\"; nothing was changed","id":"a"}`)
	f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","if_exists":"refuse"}`).expect(409,
		`{"type":"urn:delayer:problem:exists","title":"This ID is taken","status":409,"detail":"a job with this ID exists; nothing was changed","id":"a"}`)
	f.do("PATCH", "/v1/jobs/a", `{"delay":0}`).expect(204, "")
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"ready","ttl":"*","attempts":0,"max_attempts":3,"body":"<b> & ä"}`)
	f.do("DELETE", "/v1/jobs/a?unless_reserved=true", "").expect(200, `{"was":"ready"}`)
	f.do("DELETE", "/v1/jobs/a", "").problem(notFound, "", "", "")
	f.do("GET", "/v1/jobs/a", "").problem(notFound, "", "", "")
	f.do("PATCH", "/v1/jobs/a", `{"delay":0}`).problem(notFound, "", "", "")
	if f.pushed["t"] != 1 {
		t.Errorf("pushed %v", f.pushed)
	}
}

// A removal says in which state the job was. With unless_reserved it leaves a reserved one alone.
func TestRemove(t *testing.T) {
	f := start(t, web.Options{})
	remove := func(query, want string) {
		f.t.Helper()
		f.do("DELETE", "/v1/jobs/a"+query, "").expect(200, `{"was":"`+want+`"}`)
	}
	f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","delay":60}`)
	remove("?unless_reserved=true", "waiting")
	f.push("a", "t")
	f.reserve("1m")
	f.do("DELETE", "/v1/jobs/a?unless_reserved=true", "").expect(409, `{"type":"urn:delayer:problem:reserved","title":"The job is reserved","status":409,"detail":"a consumer has reserved the job; nothing was changed"}`)
	remove("?unless_reserved=false", "reserved")
	f.push("a", "t")
	f.do("POST", "/v1/jobs/a/bury", `{`+f.reserve("1m")+`}`).expect(204, "")
	remove("", "dead")
}

// All ways to give a due time.
func TestWhenAJobIsDue(t *testing.T) {
	f := start(t, web.Options{})
	in := func(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339Nano) }
	for name, c := range map[string]struct {
		fields string
		want   time.Duration
	}{
		"nothing":          {``, 0},
		"seconds":          {`,"delay":3600`, time.Hour},
		"units":            {`,"delay":"1h30m"`, 90 * time.Minute},
		"days and hours":   {`,"delay":"1d12h"`, 36 * time.Hour},
		"time":             {`,"due":"` + in(time.Hour) + `"`, time.Hour},
		"time in the past": {`,"due":"2001-01-01T00:00:00+02:00"`, 0},
	} {
		f.do("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b"`+c.fields+`}`).expect(201, `{"id":"a","outcome":"*"}`)
		job, err := f.Get(t.Context(), "a")
		if err != nil || (job.State == client.StateReady) != (c.want == 0) {
			t.Errorf("%s: %+v, %v", name, job, err)
		}
		if off := time.Until(job.Due) - c.want; c.want > 0 && (off < -hangBound || off > time.Second) {
			t.Errorf("%s: due in %v, want %v", name, time.Until(job.Due), c.want)
		}
	}
}

// IDs, topics and bodies of any bytes survive the round trip through path and JSON.
func TestAnyBytes(t *testing.T) {
	f := start(t, web.Options{})
	for i, value := range []string{
		"a", ".", "..", "...", "/", "//", "a/b", "a//b", "../x", "a/../b", "/v1/jobs", "batch", "ack", "%2F", "%", "a b", "a+b", "?", "a?b=c", "#", ";", "&=",
		"ä", "\u2028", "\xff", "a\x00b", "\n", "\r\n", "\x7f", "<script>", `"\`, "\ufffd", "{id}", strings.Repeat("\xff", 1<<10),
	} {
		path := "/v1/jobs/" + Escape(value)
		name, text := "", string(view.Encode(value))
		if !utf8.ValidString(value) {
			name, text = "_base64", string(view.Encode([]byte(value)))
		}
		fields := fmt.Sprintf(`"id%s":%s,"topic%[1]s":%[2]s,"body%[1]s":%[2]s`, name, text)
		made := f.do("POST", "/v1/jobs", "{"+fields+"}")
		made.expect(201, fmt.Sprintf(`{"id%s":%s,"outcome":"created"}`, name, text))
		if at := made.header.Get("Location"); at != path {
			t.Errorf("%q: Location %q, want %q", value, at, path)
		}
		f.do("GET", path, "").expect(200, `{`+fields+`,"state":"ready","ttl":"*","attempts":0}`)
		f.do("PATCH", path, `{"delay":0}`).expect(204, "")
		f.do("GET", "/v1/topics/"+Escape(value), "").expect(200, fmt.Sprintf(`{"topic%s":%s,"ready":1,"reserved":0,"dead":0,"overdue":"*","overdue_at_least":"*"}`, name, text))
		f.do("POST", "/v1/reserve", fmt.Sprintf(`{"topics%s":[%s]}`, name, text)).expect(200, `{"deliveries":[{`+fields+`,"token":"*","attempt":1,"max_attempts":25,"lease":30,"deadline":"*","late_by":"*"}]}`)
		f.do("DELETE", path, "").expect(200, `{"was":"reserved"}`)
		if _, err := f.Get(t.Context(), value); err == nil {
			t.Errorf("%d: %q is still there", i, value)
		}
	}
}

// The longest ID and topic are accepted, also in the path; longer ones are refused.
func TestLongest(t *testing.T) {
	f := start(t, web.Options{})
	id, topic := strings.Repeat("\xff", maxID), strings.Repeat("\xfe", maxTopic)
	_, err := f.Push(t.Context(), client.Message{ID: id, Topic: topic, Body: "b"}, 0)
	check(t, err)
	f.do("PATCH", "/v1/jobs/"+Escape(id), `{"delay":0}`).expect(204, "")
	f.do("GET", "/v1/topics/"+Escape(topic)+"/jobs?state=ready", "").expect(200, `{"jobs":["*"]}`)
	f.do("GET", "/v1/jobs/"+Escape(id+"x"), "").problem(invalid, "", "id", "1 to 4096 bytes")
	f.do("GET", "/v1/topics/"+Escape(topic+"x"), "").problem(invalid, "", "topic", "1 to 1024 bytes")
	f.do("POST", "/v1/jobs", `{"id":"`+strings.Repeat("i", maxID+1)+`","topic":"t","body":"b"}`).problem(invalid, "/id", "", "4097 bytes")
	f.do("POST", "/v1/jobs", `{"topic":"`+strings.Repeat("i", maxTopic+1)+`","body":"b"}`).problem(invalid, "/topic", "", "1025 bytes")
}

// Each job of a batch has its own options and its own result.
func TestPushBatch(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/jobs", `{"id":"b","topic":"t","body":"old"}`).expect(201, `{"id":"b","outcome":"created"}`)
	f.do("POST", "/v1/jobs/batch", `{"jobs":[
		{"id":"a","topic":"t","body":"1","delay":60,"max_attempts":3},
		{"id":"b","topic":"t","body":"2","if_exists":"refuse"},
		{"topic_base64":"/w==","body":"3"}]}`).expect(200, `{"count":2,"complete":false,"results":[
		{"id":"a","outcome":"created"},
		{"id":"b","outcome":"refused","problem":{"type":"urn:delayer:problem:exists","title":"*","status":409,"detail":"*"}},
		{"id":"*","outcome":"created"}]}`)
	if job, err := f.Get(t.Context(), "a"); err != nil || job.Options.MaxAttempts != 3 || job.State != client.StateWaiting {
		t.Errorf("%+v, %v", job, err)
	}
	if job, err := f.Get(t.Context(), "b"); err != nil || job.Body != "old" {
		t.Errorf("%+v, %v", job, err)
	}
	if f.pushed["t"] != 2 || f.pushed["\xff"] != 1 {
		t.Errorf("pushed %v", f.pushed)
	}
	for body, want := range map[string]struct{ field, detail string }{
		`{"jobs":[]}`: {"/jobs", "1 to 1000"},
		`{}`:          {"/jobs", "missing"},
		`{"jobs":[{"topic":"t","body":"b"},{"topic":"t"}]}`:                                                           {"/jobs/1/body", "missing"},
		`{"jobs":[{"id":"new","topic":"t","body":"b"},{"topic":"t","body":"b"},{"id":"new","topic":"u","body":"c"}]}`: {"/jobs/2/id", "/jobs/0 has the same ID"},
		`{"jobs":[` + strings.Repeat(`{"topic":"t","body":"b"},`, 1000) + `{"topic":"t","body":"b"}]}`:                {"/jobs", "1 to 1000"},
	} {
		f.do("POST", "/v1/jobs/batch", body).problem(invalid, want.field, "", want.detail)
	}
	f.do("GET", "/v1/jobs/new", "").problem(notFound, "", "", "")
}

// A broken key affects only the jobs stored together with it, and each job's result reports what
// happened.
func TestPushBatchWithABrokenKey(t *testing.T) {
	f := start(t, web.Options{})
	f.redis.Do("SET", "delayer:ready_queue:broken", "no list")
	f.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"a","topic":"t","body":"1"},{"id":"b","topic":"broken","body":"2"}]}`).problem(refused, "", "", "wrong type")
	if failed := f.failures(); len(failed) != 1 || !strings.Contains(failed[0].Error(), "WRONGTYPE") {
		t.Errorf("failed: %v", failed)
	}
	var jobs []string
	for i := range 251 {
		jobs = append(jobs, fmt.Sprintf(`{"id":"j%d","topic":"t","body":"b","delay":60}`, i))
	}
	jobs[250] = `{"id":"b","topic":"broken","body":"2"}`
	r := f.do("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	if r.status != http.StatusOK || !strings.HasPrefix(r.body, `{"count":250,"complete":false,`) || !strings.Contains(r.body, `{"id":"b","problem":{"type":"urn:delayer:problem:redis-refused"`) {
		t.Errorf("%d %.300s … %s", r.status, r.body, r.body[len(r.body)-300:])
	}
	jobs[3] = `{"id":"c","topic":"broken","body":"2"}`
	r = f.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"x","topic":"t","body":"b","delay":60},`+strings.Join(jobs[:249], ",")+`,{"id":"y","topic":"t","body":"b"}]}`)
	if r.status != http.StatusOK || !strings.HasPrefix(r.body, `{"count":1,"complete":false,`) || !strings.Contains(r.body, `{"id":"x","problem":{"type":"urn:delayer:problem:not-stored"`) {
		t.Errorf("%d %.600s", r.status, r.body)
	}
	f.expectFailures(2)
}

// A job with too few replicas is stored and counted. The answer contains its ID and the number of
// replicas.
func TestReplicas(t *testing.T) {
	f := start(t, web.Options{})
	f.do("POST", "/v1/jobs", `{"topic":"t","body":"b","replicas":1,"replicas_timeout":"1ms"}`).expect(504,
		`{"type":"urn:delayer:problem:too-few-replicas","title":"The job is stored, but too few replicas have it","status":504,"detail":"0 of 1 had it in time","id":"*","replicas":0}`)
	r := f.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"a","topic":"t","body":"b","replicas":2,"replicas_timeout":"1ms"},{"id":"b","topic":"t","body":"b"}]}`)
	if r.status != http.StatusOK || !strings.HasPrefix(r.body, `{"count":1,"complete":false,`) || !strings.Contains(r.body, `"detail":"0 of 2 had it in time"`) {
		t.Errorf("%d %s", r.status, r.body)
	}
	redistest.StartReplica(t, f.redis)
	f.do("POST", "/v1/jobs", `{"id":"c","topic":"t","body":"b","replicas":1,"replicas_timeout":10}`).expect(201, `{"id":"c","outcome":"created"}`)
	if n := len(f.redis.Queue("t")); n != 4 || f.pushed["t"] != n {
		t.Errorf("%d are stored, %d counted", n, f.pushed["t"])
	}
	f.expectFailures(0)
}

// A job's headers are in each answer that describes it, whichever request pushed it. A traceparent of the request itself is
// not one of them.
func TestHeaders(t *testing.T) {
	f := start(t, web.Options{})
	const headers = `"headers":{"Tenant_1.x":"Größe \"注文\" <b>&","traceparent":"00-1-2-01"}`
	r := f.request("POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","delay":60,`+headers+`}`)
	r.Header.Set("traceparent", "00-9-9-00")
	f.send(r).expect(201, `{"id":"a","outcome":"created"}`)
	f.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"b","topic":"t","body":"b","delay":60},{"id":"c","topic":"t","body":"b","delay":60,"headers":{"n":""}}]}`)
	r = f.request("POST", "/v1/jobs", `{"id":"d","topic":"u","body":"b","headers":{}}`)
	r.Header.Set("traceparent", "00-9-9-00")
	f.send(r).expect(201, `{"id":"d","outcome":"created"}`)
	f.do("GET", "/v1/jobs/d", "").expect(200, `{"id":"d","topic":"u","state":"ready","ttl":"*","attempts":0,"body":"b"}`)

	f.do("GET", "/v1/topics/t/jobs?state=waiting", "").expect(200, `{"jobs":[
		{"id":"a","topic":"t","state":"waiting","due":"*","attempts":0,`+headers+`,"size":1,"preview":"b"},
		{"id":"b","topic":"t","state":"waiting","due":"*","attempts":0,"size":1,"preview":"b"},
		{"id":"c","topic":"t","state":"waiting","due":"*","attempts":0,"headers":{"n":""},"size":1,"preview":"b"}]}`)
	f.do("PATCH", "/v1/jobs/a", `{"delay":0}`).expect(204, "")
	f.do("GET", "/v1/jobs/a", "").expect(200, `{"id":"a","topic":"t","state":"ready","ttl":"*","attempts":0,`+headers+`,"body":"b"}`)
	given := f.do("POST", "/v1/reserve", `{"topics":["t"],"lease":"1m"}`)
	given.expect(200, `{"deliveries":[{"id":"a","topic":"t","token":"*","attempt":1,"max_attempts":25,"lease":60,"deadline":"*","late_by":"*",`+headers+`,"body":"b"}]}`)
	f.do("POST", "/v1/extend", strings.TrimSuffix(strings.TrimSpace(given.body), "}")+`,"lease":60}`).expect(200, `{"count":1,"complete":true,"results":["*"]}`)
	f.do("POST", "/v1/jobs/a/bury", fmt.Sprintf(`{"topic":"t","token":%s}`, given.deliveries()[0].Token)).expect(204, "")
	f.do("GET", "/v1/dead/t", "").expect(200, `{"jobs":[{"id":"a","topic":"t","state":"dead","died":"*","attempts":1,"reason":"buried",`+headers+`,"size":1,"preview":"b"}]}`)
}

// Wrong headers change nothing, and the problem says which field and why.
func TestBadHeaders(t *testing.T) {
	f := start(t, web.Options{})
	for headers, want := range map[string]struct {
		kind          *kind
		field, detail string
	}{
		`null`:                       {badRequest, "", "want an object"},
		`{"a":1}`:                    {invalid, "/a", "want a text"},
		`{"a/b":{}}`:                 {invalid, "/a~1b", "want a text"},
		`{"a":"1","b":"2","a":"3"}`:  {badRequest, "/a", "given twice"},
		`{"a":"\ud800"}`:             {invalid, "/a", "unpaired surrogate"},
		`{"":"b"}`:                   {invalid, "", `the name "" is not 1 to 128 letters, digits, dots, underscores and hyphens`},
		`{"a b":"c"}`:                {invalid, "", `the name "a b" is not`},
		`{"a":"\u0000"}`:             {invalid, "", "the value of a is not UTF-8, or has a zero byte"},
		`{"` + long(129) + `":"c"}`:  {invalid, "", "is not 1 to 128 letters"},
		`{"a":"` + long(4089) + `"}`: {invalid, "", "they have 4097 bytes as JSON, of 4096 at most"},
	} {
		field := "/headers" + want.field
		job := `{"id":"a","topic":"t","body":"b","headers":` + headers + `}`
		f.do("POST", "/v1/jobs", job).problem(want.kind, field, "", want.detail)
		f.do("POST", "/v1/jobs/batch", `{"jobs":[{"id":"b","topic":"t","body":"b"},`+job+`]}`).problem(want.kind, "/jobs/1"+field, "", want.detail)
		f.do("PUT", "/v1/schedules/s", `{"cron":"@daily","topic":"t","body":"b","headers":`+headers+`}`).problem(want.kind, field, "", want.detail)
	}
	f.do("POST", "/v1/jobs", `{"id":"most","topic":"u","body":"b","headers":{"a":"`+long(4088)+`"}}`).expect(201, `{"id":"most","outcome":"created"}`)
	f.do("GET", "/v1/jobs/a", "").problem(notFound, "", "", "")
	f.do("GET", "/v1/jobs/b", "").problem(notFound, "", "", "")
	f.do("GET", "/v1/schedules", "").expect(200, `{"schedules":[]}`)
	f.do("POST", "/v1/jobs/a/ack", `{"topic":"t","token":1,"headers":{"a":"b"}}`).problem(badRequest, "/headers", "", "no such field")
}

func long(n int) string { return strings.Repeat("x", n) }

// Lines of an import have headers, too, and errors name the field.
func TestReadJobHeaders(t *testing.T) {
	d, err := ReadJob([]byte(`{"topic":"t","body":"b","headers":{"a":"1"},"delay":1}`))
	if err != nil || d.Headers["a"] != "1" || d.Delay != time.Second {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err = ReadJob([]byte(`{"topic":"t","body":"b","headers":{"a":1}}`)); err == nil || err.Error() != "headers/a: want a text" {
		t.Error(err)
	}
}
