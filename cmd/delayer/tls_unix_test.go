//go:build !windows

package main

import (
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
