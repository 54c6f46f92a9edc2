package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestCheck makes Redis refuse permanently. The error is ErrRefused and contains Redis's own words, and nothing is
// changed.
func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Do("ACL", "SETUSER", "restricted", "on", ">secret", "~*", "&*")
	w.push("a", "t", 1)
	w.Do("ZADD", prefix+"job_pool", 2, "orphan")
	w.Do("LPUSH", prefix+"ready_queue:t", "r")
	state := redistest.State{Pool: []string{"a", "orphan"}, Ready: queues{"t": {"r"}}, Buckets: buckets{"a": "t body"}}

	restricted := []redis.DialOption{redis.DialUsername("restricted"), redis.DialPassword("secret")}
	without := func(rules string) func() {
		return func() {
			args := []any{"SETUSER", "restricted", "resetkeys", "~*", "+@all"}
			for rule := range strings.FieldsSeq(rules) {
				args = append(args, rule)
			}
			w.Do("ACL", args...)
		}
	}
	for _, c := range []struct {
		name   string
		before func()
		dial   []redis.DialOption
		want   string // empty: no error
	}{
		{name: "all is well"},
		{name: "database 3", dial: []redis.DialOption{redis.DialDatabase(3)}},
		{name: "no such database", dial: []redis.DialOption{redis.DialDatabase(99)}, want: "ERR DB index is out of range"},
		{name: "a password, but Redis has none", dial: []redis.DialOption{redis.DialPassword("x")}, want: "ERR AUTH <password> called without any password configured"},
		{name: "user who may do all", before: without(""), dial: restricted},
		{name: "no such user", dial: []redis.DialOption{redis.DialUsername("nobody"), redis.DialPassword("x")}, want: "WRONGPASS"},
		{name: "user's password wrong", dial: []redis.DialOption{redis.DialUsername("restricted"), redis.DialPassword("x")}, want: "WRONGPASS"},
		{name: "user without scripts", before: without("-evalsha -eval"), dial: restricted, want: "NOPERM"},
		{name: "user without three commands", before: without("-time -zadd -hget"), dial: restricted, want: "NOPERM this user has no permissions to run TIME, nor ZADD, nor HGET"},
		{name: "user without lpush", before: without("-lpush"), dial: restricted, want: "NOPERM this user has no permissions to run LPUSH"},
		{name: "the jobs are in several partitions", before: func() { w.Do("HSET", "delayer:{0}:partitions", "partitions", 16) }, want: "partitions is 1 here, but 16 in Redis"},
		{name: "user without ready queues", before: without("resetkeys ~delayer:job_*"), dial: restricted, want: ErrRefused.Error()},
		{name: "wrong password", before: func() { w.Do("CONFIG", "SET", "requirepass", "right") }, dial: []redis.DialOption{redis.DialPassword("wrong")}, want: "WRONGPASS"},
		{name: "no password", want: "NOAUTH"},
		{name: "the right password", dial: []redis.DialOption{redis.DialPassword("right")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.TB = t
			if c.before != nil {
				c.before()
			}
			err := serverOn(w.poolWith(3*time.Second, c.dial...), 1, Options{}).Check(t.Context())
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
			} else if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want ErrRefused with %q", err, c.want)
			}
			w.Do("DEL", "delayer:{0}:partitions")
			w.Expect(state)
		})
	}
}

// If a user lacks the permissions for some features, the log lists the features and the commands they need; all other
// features work.
func TestCheckFeatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	checkWith := func(rights string) error {
		t.Helper()
		w.SetUser(redistest.Rights(t, "daemon") + rights)
		return serverOn(w.UserPool(), 1, Options{}).Check(t.Context())
	}
	check(t, checkWith(""))
	for rights, want := range map[string]string{
		" -lmove":             "paused topics; who uses them gives its ACL +lmove",
		" -rename -hlen":      "heartbeats and statistics, paused topics; who uses them gives its ACL +hlen +rename",
		" -hscan":             "paused topics; who uses them gives its ACL +hscan",
		" -hdel -del -type":   "heartbeats and statistics, cleaning, paused topics, schedules; who uses them gives its ACL +hdel +del +type",
		" -pttl":              "schedules with the overlap follow; who uses them gives its ACL +pttl",
		" -pexpire":           "heartbeats and statistics, schedules; who uses them gives its ACL +pexpire",
		" -hincrby":           "limits, schedules; who uses them gives its ACL +hincrby",
		" -hset -lmove -pttl": "heartbeats and statistics, paused topics, schedules, schedules with the overlap follow; who uses them gives its ACL +hset +lmove +pttl",
	} {
		err := checkWith(rights)
		if !errors.Is(err, ErrNoFeature) || errors.Is(err, ErrRefused) || errors.Is(err, ErrNoChannel) || err.Error() != ErrNoFeature.Error()+": "+want {
			t.Errorf("%s: %v, want %s", rights, err, want)
		}
	}
	err := checkWith(" -lmove -publish")
	if !errors.Is(err, ErrNoFeature) || !errors.Is(err, ErrNoChannel) {
		t.Errorf("without channels, too: %v", err)
	}
	w.SetUser(redistest.Rights(t, "daemon") + " -lmove -pttl")
	err = serverOn(w.UserPool(), 5, Options{}).Check(t.Context())
	if err == nil || strings.Count(err.Error(), "paused topics") != 1 || strings.Count(err.Error(), "+lmove") != 1 {
		t.Errorf("of five partitions: %v", err)
	}
}

// A single node of a cluster is accepted only with a hash tag in the prefix, even if it has all slots. Without a tag,
// jobs would be pushed and moved, but no consumer could take them.
func TestCheckInACluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	w := newWorld(t, "--cluster-enabled", "yes")
	slots := make([]any, 16384)
	for i := range slots {
		slots[i] = i
	}
	w.Do("CLUSTER", append([]any{"ADDSLOTS"}, slots...)...)
	redistest.Until(t, "the cluster is ready", func() bool {
		info, _ := w.Do("CLUSTER", "INFO").([]byte)
		return strings.Contains(string(info), "cluster_state:ok")
	})
	err := serverOn(w.pool(), 1, Options{}).Check(t.Context())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "such as {delayer}:") || !strings.Contains(err.Error(), "CROSSSLOT") {
		t.Errorf("error %v, want ErrRefused, and what prefix would be right", err)
	}
	cluster := func(partitions int, o Options) (*Server, error) {
		r := redistest.Must(client.Connect(client.PoolOptions{Cluster: []string{w.Addr}, Partitions: partitions}))
		t.Cleanup(func() { r.Close() })
		return New(r, o)
	}
	if _, err := cluster(1, Options{}); err == nil || !strings.Contains(err.Error(), "want several, such as 16, or a prefix with a tag, such as {delayer}:") {
		t.Errorf("error %v, want how many partitions would be right", err)
	}
	check(t, redistest.Must(cluster(16, Options{})).Check(t.Context()))
	const tagged = "{delayer}:"
	check(t, redistest.Must(cluster(1, Options{Prefix: tagged})).Check(t.Context()))
	w.server = serverOn(w.pool(), 1, Options{Prefix: tagged, Logger: w.log.logger()})
	if err := w.server.Check(t.Context()); err != nil {
		t.Errorf("prefix %s: %v", tagged, err)
	}
	c := redistest.Must(client.New(client.UsePool(w.pool(), 1), client.WithPrefix(tagged)))
	defer c.Close()
	_, err = c.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "body"}, time.Millisecond)
	check(t, err)
	defer w.run()()
	d, err := c.Reserve(t.Context(), time.Minute, "t")
	check(t, err)
	check(t, d.Ack(t.Context()))
	w.log.expectErrors(t)
}

// TestCheckMayPass creates temporary problems: they are not ErrRefused.
func TestCheckMayPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before func(w *world)
		want   string
	}{
		{"unreachable", func(w *world) { w.Kill() }, "connection refused"},
		{"hanging", func(w *world) {
			w.Hang()
			w.server = serverOn(w.poolWith(100*time.Millisecond), 1, Options{})
		}, "i/o timeout"},
		{"replica", func(w *world) { w.Do("REPLICAOF", "127.0.0.1", "1") }, "READONLY"},
		{"broken pool", func(w *world) { w.Do("SET", prefix+"job_pool", "no zset") }, "job pool delayer:job_pool"},
		{"loading", func(w *world) {
			m := miniredis.RunT(t)
			m.SetError("LOADING Redis is loading the dataset in memory")
			w.server = serverOn(w.poolTo(m.Addr(), time.Second), 1, Options{})
		}, "LOADING"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.before(w)
			err := w.server.Check(t.Context())
			if err == nil || errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q that is not ErrRefused", err, c.want)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newWorld(t).server.Check(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Check reports that Redis is a node of a cluster.
func TestCheckOneNodeOfSeveral(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	w := newWorld(t, "--cluster-enabled", "yes")
	other := redistest.Start(t, "--cluster-enabled", "yes")
	w.Do("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
	other.Do("CLUSTER", "SET-CONFIG-EPOCH", 9)
	other.Do("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
	host, port, _ := net.SplitHostPort(other.Addr)
	w.Do("CLUSTER", "MEET", host, port)
	for _, f := range []*redistest.Fixture{w.Fixture, other.Fixture} {
		redistest.Until(t, "the cluster is ready", func() bool {
			return strings.Contains(string(f.Do("CLUSTER", "INFO").([]byte)), "cluster_state:ok")
		})
	}
	err := serverOn(w.pool(), 16, Options{}).Check(t.Context())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "MOVED") || !strings.Contains(err.Error(), "redis-cluster://") {
		t.Errorf("error %v, want ErrRefused, and how to name a cluster", err)
	}
	cluster := redistest.Must(client.Connect(client.PoolOptions{Cluster: []string{w.Addr}, Partitions: 16}))
	defer cluster.Close()
	check(t, redistest.Must(New(cluster, Options{})).Check(t.Context()))
}

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
			silent := &http.Server{ErrorLog: log.New(io.Discard, "", 0)}
			go silent.Serve(l) // completes each TLS handshake
			pool := &redis.Pool{Dial: func() (redis.Conn, error) {
				conn, err := redis.Dial("tcp", l.Addr().String(), redis.DialUseTLS(true), redis.DialTLSConfig(c.client))
				if err == nil {
					_, err = conn.Do("PING")
				}
				return conn, err
			}}
			defer pool.Close()
			err = serverOn(pool, 1, Options{}).Check(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, ErrRefused) != c.refused || strings.Contains(err.Error(), ErrRefused.Error()) {
				t.Errorf("error %v, want one with %q; ErrRefused: %v", err, c.want, c.refused)
			}
		})
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
