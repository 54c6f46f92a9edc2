package redisconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// locator is a Locator that watches nothing.
type locator func(context.Context, Dial) (redis.Conn, error)

func (l locator) Locate(ctx context.Context, dial Dial) (redis.Conn, error) { return l(ctx, dial) }
func (locator) Guard(_ string, conn net.Conn) net.Conn                      { return conn }

// Each dial asks for the address: a new connection leads to where the server is by then.
func TestDialAsksTheLocator(t *testing.T) {
	from, to := redistest.Start(t), redistest.Start(t)
	from.Do("SET", "name", "from")
	to.Do("SET", "name", "to")
	addr, failed := from.Addr, error(nil)
	d := Dialer{Locator: locator(func(ctx context.Context, dial Dial) (redis.Conn, error) {
		if failed != nil {
			return nil, failed
		}
		return dial(ctx, addr)
	})}
	own := &redis.Pool{MaxIdle: 4, DialContext: d.Dial, TestOnBorrowContext: CheckRested}
	defer own.Close()
	pool := NewSource(own)
	get := func() redis.Conn {
		t.Helper()
		conn, err := pool.Get(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	expect := func(conn redis.Conn, want string) {
		t.Helper()
		if name, err := redis.String(conn.Do("GET", "name")); name != want || err != nil {
			t.Errorf("it leads to %q, %v, want %q", name, err, want)
		}
	}
	first := get()
	expect(first, "from")
	addr = to.Addr
	first.Close()
	again := get()
	expect(again, "from") // nothing is wrong with it
	second, err := pool.Replace(t.Context(), again)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	expect(second, "to")
	third := get()
	defer third.Close()
	expect(third, "to") // the first is not kept
	failed = errors.New("no master is known")
	if _, err := pool.Dial(t.Context()); err != failed {
		t.Errorf("error %v, want the Locator's", err)
	}
}

// A certificate must name the dialled host, or another one if the caller says so.
func TestServerName(t *testing.T) {
	for _, c := range []struct{ addr, own, want string }{
		{"example.com:6379", "", "example.com"},
		{"[::1]:6379", "", "::1"},
		{"/run/redis.sock", "", "localhost"},
		{"@redis", "", "localhost"},
		{"10.0.0.1:6379", "example.com", "example.com"},
	} {
		config := &tls.Config{ServerName: c.own}
		if got := TLSConfig(config, c.addr).ServerName; got != c.want || config.ServerName != c.own {
			t.Errorf("%s: %q, want %q; the caller's is %q", c.addr, got, c.want, config.ServerName)
		}
	}
}

// A Redis without a password that refuses to PING, because it can't write to its disk, is read all the same.
func TestDialDuringMISCONF(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t, "--save", "3600 1")
	redistest.Check(t, os.RemoveAll(f.Dir)) // so that no snapshot can be written
	f.Do("BGSAVE")
	conn := f.Conn()
	redistest.Until(t, "it refuses to PING", func() bool {
		_, err := conn.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	})
	conn, err := Dialer{Locator: Fixed(f.Addr)}.Dial(t.Context())
	redistest.Check(t, err)
	defer conn.Close()
	if _, err := conn.Do("GET", "a"); err != nil {
		t.Error(err)
	}
}
