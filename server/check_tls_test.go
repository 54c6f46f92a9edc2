package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A certificate that one side does not accept is ErrRefused, unless it has expired or is not yet valid: it may be
// renewed, or the clock corrected.
func TestCheckOfCertificates(t *testing.T) {
	t.Parallel()
	now := time.Now()
	good, goodRoots := certificate(t, "redis.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	expired, expiredRoots := certificate(t, "redis.example.com", now.Add(-2*time.Hour), now.Add(-time.Hour))
	early, earlyRoots := certificate(t, "redis.example.com", now.Add(time.Hour), now.Add(2*time.Hour))
	for _, c := range []struct {
		name    string
		server  *tls.Config
		client  *tls.Config
		want    string
		refused bool
	}{
		{"unknown authority", &tls.Config{Certificates: good}, &tls.Config{ServerName: "redis.example.com"}, "unknown authority", true},
		{"another name", &tls.Config{Certificates: good}, &tls.Config{ServerName: "other.example.com", RootCAs: goodRoots}, "not other.example.com", true},
		{"expired", &tls.Config{Certificates: expired}, &tls.Config{ServerName: "redis.example.com", RootCAs: expiredRoots}, "expired", false},
		{"not yet valid", &tls.Config{Certificates: early}, &tls.Config{ServerName: "redis.example.com", RootCAs: earlyRoots}, "not yet valid", false},
		{"ours is asked for", &tls.Config{Certificates: good, ClientAuth: tls.RequireAnyClientCert}, &tls.Config{ServerName: "redis.example.com", RootCAs: goodRoots}, "certificate required", true},
		{"an old version", &tls.Config{Certificates: good, MaxVersion: tls.VersionTLS12}, &tls.Config{ServerName: "redis.example.com", RootCAs: goodRoots, MinVersion: tls.VersionTLS13}, "protocol version not supported", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l, err := tls.Listen("tcp", "127.0.0.1:0", c.server)
			check(t, err)
			defer l.Close()
			go accept(l)
			pool := &redis.Pool{Dial: func() (redis.Conn, error) {
				conn, err := redis.Dial("tcp", l.Addr().String(), redis.DialUseTLS(true), redis.DialTLSConfig(c.client))
				if err == nil {
					_, err = conn.Do("PING")
				}
				return conn, err
			}}
			defer pool.Close()
			err = New(pool, Options{}).Check(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrRefused) != c.refused || strings.Contains(err.Error(), ErrRefused.Error()) {
				t.Errorf("error %v, want one with %q; ErrRefused: %v", err, c.want, c.refused)
			}
		})
	}
}

// accept completes the TLS handshake of each connection.
func accept(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			conn.(*tls.Conn).Handshake()
		}()
	}
}

// certificate creates a self-signed certificate.
func certificate(t *testing.T, name string, from, to time.Time) ([]tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: []string{name}, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	parsed, err := x509.ParseCertificate(der)
	check(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, roots
}
