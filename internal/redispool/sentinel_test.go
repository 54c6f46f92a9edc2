package redispool

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// timeouts are those of the connections of these tests.
var timeouts = Dialer{ConnectTimeout: 3 * time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}

// by dials by way of the sentinels at those addresses.
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
		if first := s.inTurn()[0]; first != right.Addr {
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
	s.Sentinels.Username, s.Sentinels.Password = "asker", "secret"
	conn, err := d.Dial(t.Context())
	redistest.Check(t, err)
	conn.Close()
}

// A connection that waits for a master that hangs ends when the sentinels name another one, and nothing runs on when all
// connections are closed.
func TestHungMasterIsLeft(t *testing.T) {
	t.Parallel()
	all := redistest.StartSentinels(t)
	d, s := by("m", strings.Split(all.Addrs(), ",")...)
	d.ReadTimeout = time.Hour
	conn, err := d.Dial(t.Context())
	redistest.Check(t, err)
	all.Servers[0].Hang()
	ended := make(chan error, 1)
	go func() {
		_, err := redis.DoContext(conn, context.Background(), "BLPOP", "nothing", 0)
		ended <- err
	}()
	if err := redistest.Receive(t, ended); err == nil {
		t.Error("the hung master has answered")
	}
	conn.Close()
	redistest.Until(t, "nobody watches any more", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.watching
	})
}
