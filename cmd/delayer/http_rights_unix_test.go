//go:build !windows

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// restrictedHTTP returns a daemon with an HTTP server, running as a Redis user with the given permissions.
// ask sends a request, requires success, and returns the answer without white space.
func restrictedHTTP(t *testing.T, rights string, lines ...string) (ask func(method, path, body string) string, admin *redistest.Server) {
	t.Helper()
	admin = redistest.Start(t)
	admin.SetUser(rights)
	s := newSite(t, admin.Addr, append([]string{"username = u", "password = p", "[http]", "listen = 127.0.0.1:0"}, lines...)...)
	p := s.start(t)
	url := urlOf(p)
	return func(method, path, body string) string {
		t.Helper()
		r, err := http.NewRequest(method, url+path, strings.NewReader(body))
		check(t, err)
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(r)
		check(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode >= 400 || strings.HasPrefix(string(text), `{"code":1`) {
			t.Errorf("%s %s: %s %.300s, %v", method, path, answer.Status, text, err)
		}
		return string(text)
	}, admin
}

// expectNothingRefused checks that Redis has refused no command of its user, not even an optional
// one.
func expectNothingRefused(t *testing.T, admin *redistest.Server) {
	t.Helper()
	for _, entry := range admin.Do("ACL", "LOG").([]any) {
		t.Errorf("Redis has refused %q", entry)
	}
}

// askPages requests everything that the HTTP server shows. The dashboard encodes IDs and topics in
// base64.
func askPages(ask func(method, path, body string) string) {
	for _, path := range []string{
		"/", "/ui/live.json", "/ui/topics", "/ui/topic?topic=t", "/ui/find?q=w", "/ui/job?id=w", "/ui/dead", "/ui/dead/topic?topic=t", "/ui/push",
		"/metrics", "/readyz", "/v1/topics", "/v1/topics/t", "/v1/topics/t/limit", "/v1/forecast?spans=1m,1h", "/v1/load?topic=t", "/v1/stats?counts=true", "/v1/servers", "/v1/partitions", "/v1/paused", "/v1/schedules", "/v1/jobs?state=waiting", "/v1/jobs/w", "/v1/dead/t", "/v1/dead/t/groups",
		"/v1/topics/t/jobs?state=waiting", "/v1/topics/t/jobs?state=ready", "/v1/topics/t/jobs?state=reserved",
	} {
		ask("GET", path, "")
	}
	ask("POST", "/get", `{"id":"w"}`)
	ask("POST", "/v1/dead/t/drop?dry_run=true", `{"all":true}`)
	ask("DELETE", "/v1/topics/t/ready?dry_run=true", "")
	ask("DELETE", "/v1/topics/t/jobs?match=*&dry_run=true", "")
}

// reserveOver reserves a job of topic t. lease is what JSON says of it: its topic and token.
func reserveOver(t *testing.T, ask func(method, path, body string) string) (id, lease string) {
	t.Helper()
	var got struct {
		Deliveries []struct {
			ID    string
			Token json.Number
		}
	}
	if err := json.Unmarshal([]byte(ask("POST", "/v1/reserve?wait=30s", `{"topics":["t"]}`)), &got); err != nil || len(got.Deliveries) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	d := got.Deliveries[0]
	return d.ID, `"topic":"t","token":` + d.Token.String()
}

// The documented permissions suffice for a daemon with an HTTP server, on each of its routes.
func TestHTTPDocumentedRights(t *testing.T) {
	t.Parallel()
	ask, admin := restrictedHTTP(t, redistest.Rights(t, "daemon", "producer", "worker", "operator"))

	// delay-queue's API.
	ask("POST", "/push", `{"topic":"q","id":"1","delay":1,"ttr":60,"body":"b"}`)
	if got := ask("POST", "/pop", `{"topic":"other,q"}`); !strings.Contains(got, `"id":"1"`) {
		t.Errorf("/pop: %s", got)
	}
	ask("POST", "/get", `{"id":"1"}`)
	ask("POST", "/finish", `{"id":"1"}`)
	ask("POST", "/delete", `{"id":"1"}`)

	// The API under /v1.
	push := func(body string) { t.Helper(); ask("POST", "/v1/jobs", body) }
	push(`{"id":"w","topic":"t","body":"b","delay":3600}`)
	push(`{"id":"w","topic":"t","body":"b","delay":3600,"if_exists":"keep_later"}`)
	push(`{"id":"o","topic":"o","body":"b","once":3600}`)
	push(`{"id":"o","topic":"o","body":"1","once":3600,"group":"k","group_longest":3600}`)
	ask("DELETE", "/v1/jobs/o", "")
	push(`{"id":"w","topic":"t","body":"b","delay":3600,"debounce":3600}`)
	ask("POST", "/v1/jobs/batch", `{"jobs":[{"id":"r","topic":"t","body":"b","lease":20,"max_attempts":5},{"id":"x","topic":"t","body":"b"}]}`)
	settle := func(verb, more string) {
		t.Helper()
		id, lease := reserveOver(t, ask)
		ask("POST", "/v1/jobs/"+id+"/"+verb, "{"+lease+more+"}")
	}
	settleMany := func(path, more string) {
		t.Helper()
		id, lease := reserveOver(t, ask)
		ask("POST", path, `{"deliveries":[{"id":"`+id+`",`+lease+`}]`+more+`}`)
	}
	settle("release", "")
	settle("extend", `,"lease":0.01`) // the lease ends by itself, and the job is delivered again
	settle("extend", `,"lease":60`)
	settle("retry", "")
	settle("ack", "")
	push(`{"id":"y","topic":"t","body":"b"}`)
	settle("bury", `,"error":"broken"`)
	push(`{"id":"u","topic":"u","body":"b"}`)
	ask("PUT", "/v1/topics/t/limit", `{"concurrency":100,"rate":100,"tag":"t"}`)
	ask("POST", "/v1/topics/t/pause", `{"unless_paused":true}`)
	askPages(ask)
	ask("POST", "/v1/topics/t/resume", "")
	ask("DELETE", "/v1/topics/t/limit", "")
	ask("GET", "/v1/dead/t?limit=1", "")
	ask("POST", "/v1/dead/t/requeue", `{"ids":["y"]}`)
	settleMany("/v1/extend", `,"lease":60`)
	push(`{"id":"z","topic":"t","body":"b"}`)
	settleMany("/v1/ack", "")
	push(`{"id":"z","topic":"t","body":"b"}`)
	settle("bury", `,"error":"broken"`)
	ask("POST", "/v1/dead/t/drop", `{"all":true}`)
	push(`{"id":"p","topic":"t","body":"b"}`)
	ask("DELETE", "/v1/topics/t/ready", "")
	ask("PATCH", "/v1/jobs/w", `{"delay":7200}`)
	ask("PATCH", "/v1/jobs/w", `{"delay":0}`)
	ask("DELETE", "/v1/jobs/w", "")
	for _, job := range []string{`{"id":"m","topic":"m","body":"b","delay":60}`, `{"id":"n","topic":"m","body":"b"}`} {
		push(job)
	}
	ask("PATCH", "/v1/topics/m/jobs?match=*", `{"delay":0}`)
	ask("DELETE", "/v1/topics/m/jobs?match=*", "")
	expectNothingRefused(t, admin)
}

// With read_only fewer permissions are enough.
func TestReadOnlyHTTPDocumentedRights(t *testing.T) {
	t.Parallel()
	ask, admin := restrictedHTTP(t, redistest.Rights(t, "daemon", "operator"), "read_only = true")
	admin.Do("HSET", "delayer:job_bucket:w", "topic", "t", "body", "b")
	admin.Do("ZADD", "delayer:job_pool", 9e9, "w")
	admin.Do("ZADD", "delayer:topics", admin.Clock(), "t")
	admin.Do("ZADD", "delayer:topics_due", 9e9, "t")
	askPages(ask)
	expectNothingRefused(t, admin)
}
