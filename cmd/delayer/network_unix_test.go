//go:build !windows

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// relay forwards connections to a server, and knows whether a script is running.
type relay struct {
	tb      testing.TB
	addr    string
	scripts atomic.Int64 // scripts without a reply yet
}

func newRelay(tb testing.TB, to string) *relay {
	r := &relay{tb: tb}
	r.addr = listen(tb, func(from net.Conn) {
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		c := &relayed{from: from, to: server, relay: r}
		go io.Copy(writer(c.answer), server)
		io.Copy(writer(c.request), from)
	})
	return r
}

// hang makes Redis hang in a pass of a daemon behind the relay. The daemon has begun its passes, which follow each other.
func (r *relay) hang(db *redistest.Server, p *process) {
	r.tb.Helper()
	p.delivers(db.Fixture)
	db.Hang()
	eventually(r.tb, "a script is under way", func() bool { return r.scripts.Load() > 0 })
}

// relayed is one connection.
type relayed struct {
	from, to net.Conn
	relay    *relay
	script   atomic.Bool // a script is running
}

func (c *relayed) request(b []byte) (int, error) {
	// On a stalled machine, a connection idle for a second is tested with a PING first.
	if (bytes.Contains(b, []byte("EVALSHA")) || bytes.Contains(b, []byte("PING"))) && c.script.CompareAndSwap(false, true) {
		c.relay.scripts.Add(1)
	}
	return c.to.Write(b)
}

func (c *relayed) answer(b []byte) (int, error) {
	if c.script.CompareAndSwap(true, false) {
		c.relay.scripts.Add(-1)
	}
	return c.from.Write(b)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// mute is a server that accepts connections and never answers.
type mute struct {
	tb        testing.TB
	addr      string
	connected chan struct{}
	hangUp    chan struct{} // closing it ends the connections
}

func newMute(tb testing.TB) *mute {
	m := &mute{tb: tb, connected: make(chan struct{}, 100), hangUp: make(chan struct{})}
	m.addr = listen(tb, func(c net.Conn) {
		m.connected <- struct{}{}
		<-m.hangUp
	})
	return m
}

func (m *mute) waitForConnection() { <-m.connected }

// listen listens on a free loopback port and serves each connection.
func listen(tb testing.TB, serve func(net.Conn)) (addr string) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(tb, err)
	tb.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return l.Addr().String()
}

// occupy sends requests that wait for jobs, and some that never finish.
func occupy(t *testing.T, url string, polls int) {
	t.Helper()
	raw := func(text string) {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		t.Cleanup(func() { conn.Close() })
		io.WriteString(conn, text)
	}
	const topics = 50
	for n := range polls {
		body := fmt.Sprintf(`{"topic":"nothing%d"}`, n%topics)
		raw(fmt.Sprintf("POST /pop HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
		if n%5 == 0 {
			raw("POST /push HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
		}
	}
}

// flood pushes and reads constantly, until it is stopped. It counts what is served.
func flood(t *testing.T, url string) (served *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	served = new(atomic.Int64)
	var visitors sync.WaitGroup
	visitor := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	for n := range 24 {
		visitors.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				method, path, body := "POST", "/push", fmt.Sprintf(`{"topic":"flood","id":"%d-%d","delay":1,"ttr":60,"body":"b"}`, n, i)
				if n%3 == 0 {
					method, path, body = "GET", []string{"/", "/metrics", "/v1/stats", "/ui/topics"}[i%4], ""
				}
				r, err := http.NewRequest(method, url+path, strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				answer, err := visitor.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				text, _ := io.ReadAll(answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK || strings.HasPrefix(string(text), `{"code":1`) {
					t.Errorf("%s: %s %.200s", path, answer.Status, text)
					return
				}
				served.Add(1)
			}
		})
	}
	return served, func() {
		cancel()
		visitors.Wait()
	}
}

// Due jobs are delivered whatever the load on the HTTP server: hundreds of requests wait, others push and
// read constantly, and some never finish.
func TestDeliveryGoesOnWhileTheHTTPServerIsFlooded(t *testing.T) {
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "max_active = 3", "[http]", "listen = 127.0.0.1:0")
	url := urlOf(s.start(t))
	polls, first := 500, int64(1000)
	if testing.Short() {
		polls, first = 200, 200
	}
	occupy(t, url, polls)
	served, stop := flood(t, url)
	defer stop()
	more := func(n int64) {
		t.Helper()
		before := served.Load()
		eventually(t, fmt.Sprint(n, " more requests are served"), func() bool { return served.Load() >= before+n })
	}
	more(first)

	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: redisServer.Addr}))
	defer c.Close()
	const jobs = 200
	for n := range jobs {
		_, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint("order", n), Topic: "orders", Body: "b"}, time.Duration(n+1)*5*time.Millisecond)
		check(t, err)
	}
	delivered := map[string]bool{}
	for len(delivered) < jobs {
		m, err := c.BPop(t.Context(), time.Minute, "orders")
		if err != nil {
			t.Fatalf("%d of %d jobs are delivered, then: %v", len(delivered), jobs, err)
		}
		delivered[m.ID] = true
	}
	more(100) // the flood still runs
	stop()
	if err := read(t, s.errors); err != "" {
		t.Errorf("the error log has %q", err)
	}
}

// Wrong certificates, and TLS on only one side, end the start, because a retry can't help.
func TestStartThatTLSForbids(t *testing.T) {
	redisServer, tlsAddr, _ := redistest.StartTLS(t)
	_, choosyAddr, _ := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	_, olderAddr, _ := redistest.StartTLS(t, "--tls-auth-clients", "yes", "--tls-protocols", "TLSv1.2")
	plainSentinel := redistest.StartSentinel(t, redisServer, 1)
	forTLS := redistest.StartSentinel(t, &redistest.Server{Fixture: redistest.On(t, tlsAddr)}, 1)
	by := func(sentinels ...string) string {
		return "sentinel_master = m\nsentinels = " + strings.Join(sentinels, ", ") + "\nconnect_timeout = 1000\n"
	}
	for _, test := range []struct {
		name, addr, line, why string
	}{
		{"sentinels that speak TLS", "", by(tlsAddr, choosyAddr), `redis refuses: sentinel ` + tlsAddr + ` wants TLS: set redis.tls = true, or take its other port`},
		{"sentinels that do not", "", by(plainSentinel.Addr) + "tls = true", `redis refuses: sentinel ` + plainSentinel.Addr + ` does not speak TLS on this port: set redis.tls = false, or take its other port`},
		{"sentinels that ask for a certificate", "", by(choosyAddr) + "tls = true\ntls_skip_verify = true", `[^\n]*remote error: tls: certificate required`},
		{"a master that speaks TLS", "", by(redistest.Nobody(t), forTLS.Addr), `redis refuses: master ` + tlsAddr + ` wants TLS: set redis.tls = true, or take its other port`},
		{"unknown authority", tlsAddr, "tls = true", `tls: [^\n]*certificate signed by unknown authority[^\n]* \(redis.tls_ca names the authorities to trust\)`},
		{"plain where TLS is spoken", tlsAddr, "", `redis refuses: it wants TLS: set redis.tls = true, or take its other port`},
		{"plain where a certificate is asked for", choosyAddr, "", `redis refuses: it wants TLS: set redis.tls = true, or take its other port`},
		{"plain where a certificate is asked for by TLS 1.2", olderAddr, "", `redis refuses: it wants TLS: set redis.tls = true, or take its other port`},
		{"TLS where it is not spoken", redisServer.Addr, "tls = true\nconnect_timeout = 1000", `redis refuses: it does not speak TLS on this port: set redis.tls = false, or take its other port`},
		{"without a certificate", choosyAddr, "tls = true\ntls_skip_verify = true", `[^\n]*remote error: tls: certificate required`},
	} {
		for _, mode := range modes {
			t.Run(test.name+strings.Join(mode, ""), func(t *testing.T) {
				t.Parallel()
				addr, place := test.addr, regexp.QuoteMeta(test.addr)
				if addr == "" {
					addr, place = redistest.Nobody(t), `m, as sentinels [\d., :]* say`
				}
				s := newSite(t, addr, test.line)
				r := failingStart(t, s, append(mode, "-c", s.conf)...)
				matches(t, "stderr", r.stderr, `ERROR: redis on `+place+`: `+test.why+`\n`)
				if r.code != exit.Redis || r.stdout != "" || exists(s.pid) {
					t.Errorf("exit code %d, stdout %q, pid file %v", r.code, r.stdout, exists(s.pid))
				}
			})
		}
	}
}

// failingStart runs a start that must fail. If it got no answer in time, as on a busy machine,
// failingStart stops it and tries again, a few times.
func failingStart(tb testing.TB, s site, args ...string) result {
	tb.Helper()
	for tries := 1; ; tries++ {
		p := startBinary(tb, s.dir, environment(tb), args...)
		p.says(p.stdout, started)
		late := regexp.MustCompile(started + `\d+; Redis has not responded yet: [^\n]*(timeout|deadline)`).MatchString(p.stdout.String())
		if late {
			stopDaemon(tb, s, syscall.SIGTERM)
		}
		if code := p.wait(); !late || tries == 5 {
			return result{code: code, stdout: p.stdout.String(), stderr: p.stderr.String()}
		}
	}
}

// The daemon connects to a Redis that requires TLS and a client certificate.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.WriteCertificate(t, cert, key)
	addr := redistest.Nobody(t)
	_, port, _ := net.SplitHostPort(addr)
	redisServer := redistest.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", cert)
	s := newSite(t, "localhost:"+port, "tls = true", "tls_ca = "+cert, "tls_cert = "+cert, "tls_key = "+key)
	p := s.started(t)
	p.delivers(redisServer.Fixture)
}
