package redisconn

import (
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// timeouts are the timeouts of connections in these tests.
var timeouts = Dialer{ConnectTimeout: 3 * time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}

// by dials through the sentinels at these addresses.
func by(name string, addrs ...string) (Dialer, *Sentinel) {
	s := NewSentinel(name, addrs, timeouts)
	d := timeouts
	d.Locator = s
	return d, s
}

// The sentinels are asked in turn until one names a server that is a master. That one is asked first from then on.
func TestSentinelsInTurn(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica.Do("REPLICAOF", host, port)
	behind, right := redistest.StartSentinel(t, replica, 9), redistest.StartSentinel(t, master, 1)
	const nobody = "127.0.0.1:1"
	d, s := by("m", nobody, behind.Addr, right.Addr)
	for range 2 {
		conn, err := d.Dial(t.Context())
		redistest.Check(t, err)
		if role, err := redis.Values(conn.Do("ROLE")); err != nil || string(role[0].([]byte)) != "master" {
			t.Errorf("role %v, %v", role, err)
		}
		conn.Close()
		if first := s.sentinels.inTurn()[0]; first != right.Addr {
			t.Errorf("%s is asked first, want %s", first, right.Addr)
		}
	}

	d, _ = by("m", nobody, behind.Addr)
	_, err := d.Dial(t.Context())
	expectError(t, err, `no master "m" is found`, nobody+": dial tcp", "; sentinel "+behind.Addr+": master "+replica.Addr+": its role is slave")
	d, _ = by("other", right.Addr)
	_, err = d.Dial(t.Context())
	expectError(t, err, `no master "other" is found: sentinel `+right.Addr+`: it knows no master "other"`)
}

func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one with %s", err, part)
		}
	}
}

// Sentinels have users of their own.
func TestSentinelsWithAPassword(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, 1, "user asker on >secret ~* &* +@all", "user default off")
	d, s := by("m", sentinel.Addr)
	_, err := d.Dial(t.Context())
	expectError(t, err, "NOAUTH")
	s.sentinels.dialer.Username, s.sentinels.dialer.Password = "asker", "secret"
	conn, err := d.Dial(t.Context())
	redistest.Check(t, err)
	conn.Close()
}

// A connection to a hung master ends when the sentinels name another one.
func TestHungMasterIsLeft(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	all := redistest.StartSentinels(t)
	d, _ := by("m", all.Addrs()...)
	d.ReadTimeout = time.Hour
	conn, err := d.Dial(t.Context())
	redistest.Check(t, err)
	defer conn.Close()
	ended := make(chan error, 1)
	go func() {
		_, err := redis.DoContext(conn, context.Background(), "BLPOP", "nothing", 0)
		ended <- err
	}()
	all.Servers[0].Hang()
	if err := redistest.Receive(t, ended); err == nil {
		t.Error("the old master has answered")
	}
}

// The watch ends with the last connection, each time. Not parallel, because it counts goroutines.
func TestNothingOutlivesTheLastConnection(t *testing.T) {
	sentinel := redistest.StartSentinel(t, redistest.Start(t), 1)
	d, s := by("m", sentinel.Addr)
	s.every = time.Millisecond
	sentinel.Do("PING")
	before := runtime.NumGoroutine()
	for range 2 {
		first, err := d.Dial(t.Context())
		redistest.Check(t, err)
		last, err := d.Dial(t.Context())
		redistest.Check(t, err)
		first.Close()
		asked := func() int { return sentinel.InfoNumber("stats", "total_connections_received") }
		since := asked()
		redistest.Until(t, "it watches", func() bool { return asked() > since+2 })
		last.Close()
		redistest.Until(t, "the goroutines are gone", func() bool { return runtime.NumGoroutine() <= before })
	}
}

// If one sentinel refuses us we go on: another one may be back soon. If all do, or the master does, we give up.
func TestSomeSentinelsRefuseUs(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	locked, open := "user default on >secret ~* &* +@all", "user default on nopass ~* &* +@all"
	strict, stricter, right := redistest.StartSentinel(t, master, 1, locked), redistest.StartSentinel(t, master, 1, locked), redistest.StartSentinel(t, master, 1, open)
	const nobody = "127.0.0.1:1"
	for _, c := range []struct {
		sentinels []string
		password  string
		refusal   string // as an error of Redis
		network   bool   // an error of the network
	}{
		{sentinels: []string{strict.Addr, nobody}, network: true},
		{sentinels: []string{nobody, strict.Addr}, network: true},
		{sentinels: []string{strict.Addr, stricter.Addr}, refusal: "NOAUTH"},
		{sentinels: []string{strict.Addr, right.Addr, nobody}, password: "wrong", refusal: "WRONGPASS", network: true},
	} {
		d, _ := by("m", c.sentinels...)
		d.Username, d.Password = "u", c.password
		_, err := d.Dial(t.Context())
		var refusal redis.Error
		if errors.As(err, &refusal) != (c.refusal != "") || !strings.HasPrefix(string(refusal), c.refusal) {
			t.Errorf("%+v: refusal %q in %v", c, refusal, err)
		}
		if network := errors.As(err, new(*net.OpError)); network != c.network {
			t.Errorf("%+v: an error of the network: %v, in %v", c, network, err)
		}
		expectError(t, err, "sentinel "+strict.Addr+": NOAUTH")
	}
}

// A hung sentinel delays only the first caller that does not wait.
func TestHungSentinelIsAskedLast(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	hung, right := redistest.StartSentinel(t, master, 1), redistest.StartSentinel(t, master, 1)
	hung.Hang()
	d, s := by("m", hung.Addr, right.Addr)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := d.Dial(ctx); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want that of the deadline", err)
	}
	if first := s.sentinels.inTurn()[0]; first != right.Addr {
		t.Errorf("%s is asked first, want %s", first, right.Addr)
	}
}

// The documented permissions suffice to find the master and its successor: Redis and the sentinels refuse nothing.
func TestRightsWithSentinels(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master, 1, "user asker on >secret"+redistest.Rights(t, "sentinel"))
	d, s := by("m", sentinel.Addr)
	s.sentinels.dialer.Username, s.sentinels.dialer.Password = "asker", "secret"
	d.Username, d.Password = "u", "p"
	for _, user := range []string{"daemon", "producer", "consumer", "worker", "operator"} {
		master.SetUser(redistest.Rights(t, user) + " +role")
		conn, err := d.Dial(t.Context())
		redistest.Check(t, err)
		s.look(t.Context())
		conn.Close()
	}
	for _, server := range []*redistest.Server{master, sentinel} {
		if denied := server.Do("ACL", "LOG").([]any); len(denied) > 0 {
			t.Errorf("refused: %q", denied)
		}
	}
}

// A hung sentinel is asked after those that answer, even if they know no master.
func TestHungSentinelIsAskedBehindThoseThatFail(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	master, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica.Do("REPLICAOF", host, port)
	behind, hung := redistest.StartSentinel(t, replica, 9), redistest.StartSentinel(t, master, 1)
	hung.Hang()
	d, s := by("m", hung.Addr, behind.Addr)
	for range 2 {
		_, err := d.Dial(t.Context())
		expectError(t, err, "its role is slave", "sentinel "+hung.Addr)
		if first := s.sentinels.inTurn()[0]; first != behind.Addr {
			t.Errorf("%s is asked first, want %s", first, behind.Addr)
		}
	}
	hung.Continue()
	redistest.Until(t, "the one that has answered is asked first", func() bool { // the watch asks them as well
		conn, err := d.Dial(t.Context())
		if err == nil {
			conn.Close()
		}
		return err == nil && s.sentinels.inTurn()[0] == hung.Addr
	})
}

// A sentinel that was given up without waiting is still asked first.
func TestGivenUpAtASentinel(t *testing.T) {
	t.Parallel()
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	redistest.Check(t, err)
	defer mute.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if _, err := mute.Accept(); err == nil {
			cancel()
		}
	}()
	d, s := by("m", mute.Addr().String(), "127.0.0.1:1")
	if _, err := d.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if got := s.sentinels.inTurn()[0]; got != mute.Addr().String() {
		t.Errorf("%s is asked first, want the one that was given up", got)
	}
}
