//go:build !windows

package main

import (
	"crypto/tls"
	"crypto/x509"
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
