package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/web"
)

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
