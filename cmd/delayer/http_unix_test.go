//go:build !windows

package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// urlOf returns the address of a daemon's HTTP server, once it runs.
func urlOf(p *process) string {
	p.tb.Helper()
	p.expect(p.stdout, started)
	found := regexp.MustCompile(`(?m)^HTTP server:\t(\S+)/$`).FindStringSubmatch(p.stdout.String())
	if found == nil {
		p.tb.Fatalf("no HTTP server: %s", p.stdout)
	}
	return found[1]
}

// get sends a GET request and returns the status and the body of the answer.
func get(tb testing.TB, c *http.Client, url string, header ...string) (int, string) {
	tb.Helper()
	r, err := http.NewRequest("GET", url, nil)
	check(tb, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := c.Do(r)
	check(tb, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	check(tb, err)
	return response.StatusCode, string(body)
}

// Each area of the HTTP server responds. Areas that reveal jobs require the token, which comes from the environment here.
func TestHTTPServer(t *testing.T) {
	t.Parallel()
	const token = "0123456789abcdef"
	s := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
	p := startBinary(t, s.dir, environment(t, "DELAYER_HTTP_TOKEN="+token), "-c", s.conf)
	url := urlOf(p)
	for path, want := range map[string]string{
		"/healthz":         "ok",
		"/readyz":          "",
		"/metrics":         "delayer_redis_up 1",
		"/v1/topics":       `"topics"`,
		"/v1/openapi.yaml": "openapi: 3.1",
		"/":                "<html",
		"/get":             `"code":1`,
	} {
		open := path == "/healthz" || path == "/readyz"
		if status, body := get(t, http.DefaultClient, url+path); status != http.StatusUnauthorized && !open {
			t.Errorf("%s without the token: %d %s", path, status, body)
		}
		status, body := get(t, http.DefaultClient, url+path, "Authorization", "Bearer "+token)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, without %q: %.500s", path, status, want, body)
		}
	}
	if strings.Contains(p.stdout.String()+read(t, s.errors), token) {
		t.Error("the token is in the log")
	}
}

// A waiting poll is answered when the daemon stops, and does not delay the stop.
func TestHTTPStops(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "[http]", "listen = 127.0.0.1:0")
	p := s.start(t)
	url := urlOf(p)
	answer := make(chan string, 1)
	go func() {
		response, err := http.Post(url+"/pop", "application/json", strings.NewReader(`{"topic":"nothing"}`))
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	redisServer.AwaitWaiter("nothing")
	p.signal(syscall.SIGTERM)
	if got := <-answer; !strings.Contains(got, `"data":null`) {
		t.Errorf("the poll got %s", got)
	}
	if code := p.wait(); code != 0 || p.stderr.String() != "" {
		t.Errorf("exit code %d, stderr %s", code, p.stderr)
	}
}

// /readyz uses the configured ready_max_late.
func TestReadyMaxLate(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "[http]", "listen = 127.0.0.1:0", "ready_max_late = 20")
	s.change(t, "timer_interval = 10", "timer_interval = 60000") // keeps the server from moving the job
	url := urlOf(s.start(t))
	eventually(t, "the first pass is over", func() bool {
		_, body := get(t, http.DefaultClient, url+"/metrics")
		return regexp.MustCompile(`(?m)^delayer_pass_duration_seconds_count [1-9]`).MatchString(body)
	})
	putDue(redisServer.Fixture, time.Now().Unix()-30)
	if status, body := get(t, http.DefaultClient, url+"/readyz"); status != http.StatusOK || !strings.Contains(body, "degraded") || !strings.Contains(body, "ready_max_late") {
		t.Errorf("%d %s, want 200, degraded", status, body)
	}
}

// If the HTTP server can't listen, the daemon does not start.
func TestHTTPCannotListen(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	s := newSite(t, redistest.Nobody(t), "[http]", "listen = "+taken.Addr().String())
	for _, args := range [][]string{{"-c", s.conf}, {"-d", "-c", s.conf}, {"--dev", "-c", s.conf}} {
		r := runBinary(t, s.dir, environment(t), args...)
		want := "ERROR: http.listen = " + taken.Addr().String() + ": bind: address already in use\n"
		if r.code != exit.Failed || r.stderr != want || exists(s.pid) {
			t.Errorf("%v: %+v, want %q", args, r, want)
		}
	}
}

func TestHTTPWithoutCertificate(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t), "[http]", "listen = 127.0.0.1:0", "tls_cert = gone.pem", "tls_key = gone.pem")
	for _, args := range [][]string{{"-c", s.conf}, {"--check-config", "-c", s.conf}} {
		r := runBinary(t, s.dir, environment(t), args...)
		if r.code != exit.Usage || !strings.HasPrefix(r.stderr, "ERROR: http.tls_cert: open ") {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// A replaced certificate is used from then on. An unreadable one is not.
func TestHTTPCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.WriteCertificate(t, certFile, keyFile)
	s := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0", "tls_cert = "+certFile, "tls_key = "+keyFile)
	url := urlOf(s.start(t))
	if !strings.HasPrefix(url, "https://") {
		t.Fatal(url)
	}
	ask := func() (int, string) { // trusts the current authority only
		pem, err := os.ReadFile(certFile)
		check(t, err)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(pem)
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "localhost"}}
		defer transport.CloseIdleConnections()
		return get(t, &http.Client{Transport: transport}, url+"/healthz")
	}
	first, err := os.ReadFile(certFile)
	check(t, err)
	if status, _ := ask(); status != http.StatusOK {
		t.Errorf("the first: %d", status)
	}
	redistest.WriteCertificate(t, certFile, keyFile)
	later := time.Now().Add(time.Hour) // works with coarse file times
	os.Chtimes(certFile, later, later)
	if status, _ := ask(); status != http.StatusOK {
		t.Errorf("the second: %d", status)
	}
	second, err := os.ReadFile(certFile)
	if err != nil || string(second) == string(first) {
		t.Fatalf("%v, or the same certificate", err)
	}
	write(t, keyFile, "nonsense")
	os.Chtimes(keyFile, later, later)
	for range 2 {
		if status, _ := ask(); status != http.StatusOK {
			t.Errorf("the second, without its key: %d", status)
		}
	}
	if log := read(t, s.errors); strings.Count(log, "\n") != 1 || !strings.Contains(log, "http.tls_cert, http.tls_key: "+certFile) {
		t.Errorf("the error log has %q, want one line that names the files", log)
	}
}

// While Redis is down, the HTTP server runs and reports the outage.
func TestHTTPWithoutRedis(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t), "[http]", "listen = 127.0.0.1:0")
	p := s.start(t)
	url := urlOf(p)
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/readyz": http.StatusServiceUnavailable, "/": http.StatusServiceUnavailable, "/metrics": http.StatusOK} {
		if status, body := get(t, http.DefaultClient, url+path); status != want {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	answer, err := http.Post(url+"/get", "", strings.NewReader(`{"id":"a"}`)) // of delay-queue's API
	check(t, err)
	answer.Body.Close()
	p.stopped()
	if log := read(t, s.errors); !strings.Contains(log, "HTTP server: a request failed: delayer: get ") {
		t.Errorf("the error log has %q", log)
	}
}

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
