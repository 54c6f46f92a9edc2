package openapitest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/api"
)

// push pushes a ready job.
func (p *prober) push(id, topic string, opts ...client.PushOption) {
	p.t.Helper()
	_, err := p.Push(p.t.Context(), client.Message{ID: id, Topic: topic, Body: "b"}, 0, opts...)
	check(p.t, err)
}

// reserved makes a reserved job, and returns the body of a settlement for it.
func (p *prober) reserved(id string, opts ...client.PushOption) string {
	p.t.Helper()
	p.push(id, "t", opts...)
	d, err := p.Reserve(p.t.Context(), time.Hour, "t")
	check(p.t, err)
	return fmt.Sprintf(`"topic":"t","token":%d`, d.Token)
}

// buried makes a dead letter.
func (p *prober) buried(id, reason string) {
	p.t.Helper()
	p.push(id, "t")
	d, err := p.Reserve(p.t.Context(), time.Hour, "t")
	if err == nil {
		err = d.Bury(p.t.Context(), errors.New(reason))
	}
	check(p.t, err)
}

// done makes requests of every kind that succeed, and prepares the data that they need.
func (p *prober) done(h http.Handler) {
	ask := func(want int, method, path, body string) {
		p.t.Helper()
		p.ask(h, request{method: method, path: path, body: body}, want)
	}
	ask(201, "POST", "/v1/jobs", `{"topic":"t","body":"b"}`)
	ask(201, "POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","delay":"1h30m","max_attempts":3,"lease":1.5,"expire_after":"7d","if_exists":"keep_later"}`)
	ask(201, "POST", "/v1/jobs", `{"id_base64":"/w==","topic_base64":"/w==","body_base64":"/w==","due":"`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`)
	ask(201, "POST", "/v1/jobs", `{"id":"d","topic":"u","body":"b","debounce":"1h"}`)
	ask(201, "POST", "/v1/jobs", `{"id":"h","topic":"h","body":"b","headers":{"tenant":"acme","a.b_c-D":"<b>"}}`)
	for range 2 {
		ask(200, "POST", "/v1/jobs/batch", `{"jobs":[{"id":"o","topic":"u","body":"b","once":60}]}`)
	}
	ask(201, "POST", "/v1/jobs", `{"topic":"u","body":"1","group":"k","group_max":9,"group_quiet":"1h","group_longest":"2h"}`)
	ask(201, "POST", "/v1/jobs", `{"topic":"u","body":"2","group_base64":"aw==","group_quiet":60,"id":"g","once":60}`)
	for _, key := range []string{"a key", `"in quotes"`} {
		for _, want := range []int{201, 200} {
			p.ask(h, request{"POST", "/v1/jobs", `{"topic":"u","body":"b"}`, map[string]string{api.IdempotencyKey: key}, nil}, want)
		}
	}
	p.ask(h, request{"POST", "/v1/jobs", `{"topic":"u","body":"another"}`, map[string]string{api.IdempotencyKey: "a key"}, nil}, 422)
	ask(504, "POST", "/v1/jobs", `{"id":"a","topic":"t","body":"b","delay":"1h30m","replicas":1,"replicas_timeout":0.001}`)
	ask(504, "POST", "/v1/jobs", `{"id_base64":"/w==","topic_base64":"/w==","body":"b","delay":"1h","replicas":1,"replicas_timeout":"1ms"}`)
	ask(200, "POST", "/v1/jobs/batch", `{"jobs":[{"topic":"t","body":"b","delay":"1h","replicas":1,"replicas_timeout":"1ms"}]}`)
	ask(200, "GET", "/v1/jobs/a", "")
	ask(200, "GET", "/v1/jobs/%FF", "")
	ask(200, "POST", "/v1/jobs/batch", `{"jobs":[{"id":"a","topic":"t","body":"b","if_exists":"refuse"},{"topic":"t","body":"b","delay":1}]}`)
	ask(204, "PATCH", "/v1/jobs/a", `{"delay":0}`)
	ask(200, "POST", "/v1/reserve?wait=10ms", `{"topics":["t"],"max":10,"lease":"1m","max_attempts":2}`)
	ask(200, "POST", "/v1/reserve", `{"topics_base64":["/w=="]}`)
	ask(200, "GET", "/v1/jobs/a", "")
	ask(409, "DELETE", "/v1/jobs/a?unless_reserved=true", "")
	ask(200, "DELETE", "/v1/jobs/a", "")
	ask(200, "DELETE", "/v1/jobs/%FF?unless_reserved=false", "")

	held := p.reserved("a")
	one := `{"deliveries":[{"id":"a",` + held + `}]`
	ask(200, "POST", "/v1/extend", one+`,"lease":60}`)
	ask(200, "POST", "/v1/ack", one+`}`)
	ask(200, "POST", "/v1/extend", one+`,"lease":60}`)
	ask(200, "POST", "/v1/ack", one+`}`)
	ask(200, "POST", "/v1/jobs/a/extend", `{`+p.reserved("a")+`,"lease":"1m"}`)
	ask(204, "POST", "/v1/jobs/a/ack", `{`+p.reserved("a")+`}`)
	ask(200, "POST", "/v1/jobs/a/retry", `{`+p.reserved("a")+`,"delay":"1m","error":"closed"}`)
	ask(200, "GET", "/v1/jobs/a", "")
	ask(200, "POST", "/v1/jobs/a/retry", `{`+p.reserved("a")+`}`)
	p.Remove(p.t.Context(), "a")
	ask(200, "POST", "/v1/jobs/a/retry", `{`+p.reserved("a", client.JobOptions{MaxAttempts: 1})+`}`)
	ask(204, "POST", "/v1/jobs/a/release", `{`+p.reserved("a")+`,"delay":1}`)
	ask(204, "POST", "/v1/jobs/a/bury", `{`+p.reserved("a")+`,"error":"closed"}`)
	ask(200, "GET", "/v1/jobs/a", "")

	p.reserved("r")
	p.push("s", "t")
	p.push("u", "\xff")
	for _, path := range []string{
		"/v1/jobs/h", "/v1/topics/h/jobs?state=ready", "/v1/topics", "/v1/topics?contains=t&limit=1", "/v1/topics?cursor=YQ", "/v1/topics/t", "/v1/topics/%FF", "/v1/topics/t/jobs?state=ready", "/v1/topics/t/jobs?state=ready&limit=1&cursor=", "/v1/topics/t/jobs?state=reserved",
		"/v1/topics/t/jobs?state=waiting&match=a*", "/v1/jobs?state=waiting", "/v1/jobs?state=reserved&match=%3F&limit=1",
		"/v1/forecast", "/v1/forecast?spans=1m,7d", "/v1/load?topic=t", "/v1/load?topic=t&within=5m", "/v1/stats", "/v1/stats?counts=true", "/v1/servers", "/v1/partitions",
		"/v1/dead/t", "/v1/dead/t?limit=1", "/v1/dead/t?reason=bad&error=x&after=2001-01-01T00:00:00Z&before=2100-01-01T00:00:00Z&match=*", "/v1/dead/t/groups", "/v1/dead/t/groups?limit=1", "/v1/openapi.yaml",
	} {
		ask(200, "GET", path, "")
	}
	given := strings.TrimSpace(p.ask(h, request{method: "POST", path: "/v1/reserve", body: `{"topics":["h"]}`}, 200))
	ask(200, "POST", "/v1/ack", given)
	ask(200, "GET", "/v1/topics/t/limit", "")
	ask(200, "PUT", "/v1/topics/t/limit", `{"concurrency":4,"rate":10.5,"burst":3,"tag":"x"}`)
	ask(200, "PUT", "/v1/topics/%FF/limit", `{"rate":0.001}`)
	for _, path := range []string{"/v1/topics", "/v1/topics/t", "/v1/topics/t/limit", "/v1/topics/%FF/limit", "/v1/stats?counts=true"} {
		ask(200, "GET", path, "")
	}
	for _, topic := range []string{"t", "%FF"} {
		ask(204, "DELETE", "/v1/topics/"+topic+"/limit", "")
	}
	ask(204, "POST", "/v1/topics/t/pause", `{"for":"1h","note":"why"}`)
	ask(204, "POST", "/v1/topics/t/throttle", `{"for":0.5}`)
	ask(204, "POST", "/v1/topics/%FF/pause", `{}`)
	ask(204, "POST", "/v1/topics/%FF/pause", `{"unless_paused":true}`)
	ask(409, "POST", "/v1/topics/%FF/pause", `{"note":"why","unless_paused":true}`)
	for _, path := range []string{"/v1/paused", "/v1/topics", "/v1/topics/t", "/v1/topics/%FF"} {
		ask(200, "GET", path, "")
	}
	ask(200, "POST", "/v1/topics/t/resume", "")
	ask(200, "POST", "/v1/topics/t/resume", "")
	for _, schedule := range []string{
		`{"cron":"0 7 * * mon-fri","zone":"Europe/Berlin","topic":"t","body":"b","missed":"all","overlap":"skip","jitter":"1m","max_attempts":3,"lease":60,"expire_after":"1d"}`,
		`{"cron":"@every 90s","topic_base64":"/w==","body_base64":"/w==","headers":{"tenant":"acme"},"overlap":"follow"}`,
	} {
		ask(200, "PUT", "/v1/schedules/a%20b", schedule)
		ask(200, "PUT", "/v1/schedules/%FF", schedule)
		ask(200, "POST", "/v1/schedules/a%20b/run", "")
		ask(200, "POST", "/v1/schedules/%FF/run", "")
		ask(204, "PATCH", "/v1/schedules/%FF", `{"paused":true}`)
		ask(200, "GET", "/v1/schedules", "")
		ask(204, "PATCH", "/v1/schedules/%FF", `{"paused":false}`)
	}
	ask(204, "DELETE", "/v1/schedules/a%20b", "")
	for _, selection := range []string{"t/jobs?match=*&limit=3&dry_run=true", "t/jobs?match=*&state=ready&limit=1", "%FF/jobs?match=%FF"} {
		ask(200, "PATCH", "/v1/topics/"+selection, `{"delay":0}`)
		ask(200, "DELETE", "/v1/topics/"+selection, "")
	}
	ask(200, "DELETE", "/v1/topics/t/ready?dry_run=true&limit=1", "")
	ask(200, "DELETE", "/v1/topics/t/ready", "")

	for _, verb := range []string{"requeue", "drop"} {
		for _, selection := range []string{`{"ids":["a","no"]}`, `{"ids_base64":["YQ=="]}`, `{"reason":"bad"}`, `{"error_base64":"/w==","before":"2100-01-01T00:00:00Z"}`, `{"after":"2001-01-01T00:00:00Z"}`,
			`{"match":"*","limit":1}`, `{"match_base64":"YSo="}`, `{"all":true}`} {
			p.Remove(p.t.Context(), "a")
			p.buried("a", "bad")
			ask(200, "GET", "/v1/dead/t", "")
			ask(200, "GET", "/v1/dead/t/groups", "")
			ask(200, "POST", "/v1/dead/t/"+verb+"?dry_run=true", selection)
			ask(200, "POST", "/v1/dead/t/"+verb, selection)
		}
	}
	p.buried("x", "bad")
	p.push("x", "t")
	ask(200, "POST", "/v1/dead/t/requeue", `{"all":true}`)
	p.redis.Do("SET", "delayer:ready_queue:broken", "no list")
	jobs := strings.Repeat(`{"topic":"t","body":"b"},`, 250)
	ask(200, "POST", "/v1/jobs/batch", `{"jobs":[`+jobs+`{"topic":"t","body":"b"},{"topic":"broken","body":"b"}]}`)
	ask(200, "GET", "/v1/topics", "")
}

// each returns a valid request for each route, so that a test can change one aspect. The description has an
// example of each body and each required parameter.
func (p *prober) each() (list []request) {
	for _, r := range api.Routes {
		q := request{method: r.Method, path: strings.NewReplacer("{id}", "an-id", "{topic}", "a-topic", "{name}", "a-name").Replace(r.Path)}
		operation, query := p.doc.Paths.Value(r.Path).GetOperation(r.Method), url.Values{}
		for _, parameter := range operation.Parameters {
			if parameter.Value.Required {
				query.Set(parameter.Value.Name, parameter.Value.Example.(string))
			}
		}
		if len(query) > 0 {
			q.path += "?" + query.Encode()
		}
		if r.Body != nil {
			for _, example := range operation.RequestBody.Value.Content["application/json"].Examples {
				text, err := json.Marshal(example.Value.Value)
				check(p.t, err)
				q.body = string(text)
			}
		}
		list = append(list, q)
	}
	return list
}

// refusedByAll makes the requests that every route refuses in the same way.
func (p *prober) refusedByAll(h http.Handler) {
	pool := client.PoolOptions{Addr: p.redis.Addr}
	guarded, readOnly := p.front(web.Options{Token: secret}, pool), p.front(web.Options{ReadOnly: true}, pool)
	pool.Username, pool.Password = "nobody", "wrong"
	unknown := p.front(web.Options{}, pool)
	for _, r := range p.each() {
		query := "?"
		if strings.Contains(r.path, "?") {
			query = "&"
		}
		ask := func(h http.Handler, r request, want int) { p.t.Helper(); p.ask(h, r, want) }
		ask(h, request{r.method, r.path + query + "nonsense=1", r.body, nil, nil}, 400)
		ask(guarded, r, 401)
		ask(h, r.with(func(r *http.Request) *http.Request { r.Host = "evil.example"; return r }), 421)
		if r.method != "GET" {
			ask(readOnly, r, 403)
		}
		for name, size := range map[string]int{"an-id": 4097, "a-topic": 1025, "a-name": 201} {
			if strings.Contains(r.path, name) {
				ask(h, request{r.method, strings.Replace(r.path, name, strings.Repeat("x", size), 1), r.body, nil, nil}, 422)
			}
		}
		if r.path != "/v1/openapi.yaml" {
			ask(unknown, r, 502)
		}
		if r.body == "" {
			continue
		}
		if strings.HasSuffix(r.path, "/pause") {
			ask(h, request{r.method, r.path, `{"for":0}`, nil, nil}, 422) // without a duration, a pause has no end
		} else {
			ask(h, request{r.method, r.path, "{}", nil, nil}, 422)
		}
		ask(h, request{r.method, r.path, r.body + "x", nil, nil}, 400)
		ask(h, request{r.method, r.path, `{"x":"` + strings.Repeat("x", maxBody) + `"}`, nil, nil}, 413)
		ask(h, r.with(func(r *http.Request) *http.Request { r.Header.Del("Content-Type"); return r }), 415)
		ask(h, r.with(func(r *http.Request) *http.Request {
			r.Body = io.NopCloser(iotest.ErrReader(os.ErrDeadlineExceeded))
			return r
		}), 408)
	}
}

// Every answer matches the description. Every described status of an operation, and every type of
// problem, occurs.
func TestAnswersAreDescribed(t *testing.T) {
	p := newProber(t)
	h := p.usual()
	p.serve(h)
	p.done(h)
	p.refusedByAll(h)
	get := func(path string) request { return request{method: "GET", path: path} }
	post := func(path, body string) request { return request{method: "POST", path: path, body: body} }

	p.push("here", "t")
	p.ask(h, post("/v1/jobs", `{"id":"here","topic":"t","body":"b","if_exists":"refuse"}`), 409)
	p.ask(h, post("/v1/jobs", `{"id":"here","topic":"\u0000","body":"b"}`), 409)
	p.ask(h, post("/v1/jobs", `{"id":"o","topic":"u","body":"b","once":"1h"}`), 409)
	p.ask(h, get("/v1/jobs/no"), 404)
	p.ask(h, request{method: "DELETE", path: "/v1/jobs/no"}, 404)
	p.ask(h, request{method: "PATCH", path: "/v1/jobs/no", body: `{"delay":1}`}, 404)
	p.ask(h, get("/v1/topics/no"), 404)
	p.push("{taken}@schedule", "t")
	p.ask(h, request{method: "PUT", path: "/v1/schedules/taken", body: `{"cron":"@daily","topic":"t","body":"b"}`}, 409)
	p.ask(h, request{method: "PUT", path: "/v1/schedules/a", body: `{"cron":"@daily","zone":"Mars","topic":"t","body":"b"}`}, 422)
	p.ask(h, request{method: "PATCH", path: "/v1/schedules/no", body: `{"paused":true}`}, 404)
	p.ask(h, request{method: "DELETE", path: "/v1/schedules/no"}, 404)
	p.ask(h, post("/v1/schedules/no/run", ""), 404)
	p.ask(h, get("/v1/forecast?spans=x"), 422)
	for _, path := range []string{"/v1/jobs", "/v1/load", "/v1/stats?counts=x"} {
		p.ask(h, get(path), 422)
	}
	p.ask(h, get("/v1/topics?limit=0"), 422)
	p.ask(h, post("/v1/jobs/no/ack", `{"topic":"t","token":1}`), 410)
	for verb, more := range map[string]string{"ack": "", "retry": "", "release": "", "extend": `,"lease":1`, "bury": ""} {
		p.ask(h, post("/v1/jobs/here/"+verb, `{"topic":"t","token":1`+more+`}`), 409)
	}
	p.maxWork = time.Nanosecond // times out at once
	noWait := p.usual()
	p.maxWork = 0
	for _, r := range []request{{method: "DELETE", path: "/v1/topics/t/ready"}, {method: "DELETE", path: "/v1/topics/t/jobs?match=*"}, post("/v1/dead/t/requeue", `{"all":true}`), post("/v1/dead/t/drop", `{"all":true}`)} {
		p.ask(noWait, r, 408)
	}

	divided := client.PoolOptions{Addr: p.redis.Addr, Database: 1, Partitions: 4}
	partitions := p.front(web.Options{}, divided)
	for i := range 8 { // some of them lack the tag
		p.ask(partitions, post("/v1/jobs", fmt.Sprintf(`{"id":"%d","topic":"t","body":"b"}`, i)), 201)
	}
	p.ask(partitions, request{method: "PUT", path: "/v1/topics/t/limit", body: `{"concurrency":4,"tag":"vip"}`}, 200)
	broken := p.redis.Dial()
	defer broken.Close()
	broken.Do("SELECT", 1)
	broken.Do("SET", "delayer:{1}:job_pool", "no sorted set")
	for _, path := range []string{"/v1/topics", "/v1/forecast", "/v1/stats", "/v1/partitions"} {
		p.ask(partitions, get(path), 200)
	}

	closed := p.open(client.PoolOptions{Addr: p.redis.Addr})
	closed.Close()
	p.ask(web.New(web.Options{}, p.area(client.PoolOptions{Addr: p.redis.Addr}, closed)), post("/v1/jobs", `{"topic":"t","body":"b"}`), 503)
	p.redis.Do("CONFIG", "SET", "maxmemory", "1")
	p.ask(h, post("/v1/jobs", `{"topic":"t","body":"b"}`), 503)
	p.redis.Do("CONFIG", "SET", "maxmemory", "0")
	p.redis.Kill()
	for _, r := range p.each() {
		if r.path != "/v1/openapi.yaml" {
			p.ask(h, r, 503)
		}
	}

	for path, item := range p.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			name := method + " " + path
			for status := range operation.Responses.Map() {
				n, _ := strconv.Atoi(status)
				if !p.seen[name][n] {
					t.Errorf("%s: %s is described, but was not seen", name, status)
				}
			}
		}
	}
	// These belong to no operation; too-many-waiting needs a server with 10,000 requests (see
	// api.TestTooManyWait).
	elsewhere := []string{"too-many-connections", "too-many-waiting", "no-route", "method-not-allowed", "not-stored"}
	for _, kind := range p.doc.Components.Schemas["Problem"].Value.Properties["type"].Value.Enum {
		name := strings.TrimPrefix(kind.(string), "urn:delayer:problem:")
		if !p.types[kind.(string)] && !slices.Contains(elsewhere, name) {
			t.Errorf("%s was not seen", kind)
		}
	}
}
