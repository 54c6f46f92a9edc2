package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
)

func newTestService() *service {
	return &service{mode: foreground, signals: &exit.Signals{Stop: make(chan os.Signal, 2)}}
}

// One signal ends the work's context. Work that does not stop is abandoned after stopWait, within the
// promised 5 s, or at once after another signal. GNU timeout and some supervisors send the same signal
// twice within milliseconds, to the process and to its group.
func TestStop(t *testing.T) {
	const second, slow = exit.SameSignal + time.Millisecond, 100 * time.Millisecond
	hangs := func(context.Context) error { time.Sleep(time.Hour); return nil }
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		signals []time.Duration // times of the signals
		work    func(context.Context) error
		err     error
		after   time.Duration
	}{
		"of work that hangs":     {[]time.Duration{0}, hangs, exit.ErrCutOff, stopWait},
		"by a second signal":     {[]time.Duration{0, 0, second}, hangs, exit.ErrCutOff, second},
		"by one that came twice": {[]time.Duration{0, slow / 10}, func(ctx context.Context) error { <-ctx.Done(); time.Sleep(slow); return nil }, nil, slow},
		"by itself":              {nil, func(context.Context) error { return broken }, broken, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestService()
				for _, at := range test.signals {
					time.AfterFunc(at, func() { s.signals.Stop <- syscall.SIGTERM })
				}
				began := time.Now()
				if err := s.during(test.work); !errors.Is(err, test.err) || time.Since(began) != test.after {
					t.Errorf("%v after %v, want %v after %v", err, time.Since(began), test.err, test.after)
				}
				time.Sleep(2 * time.Hour) // the hanging work ends
			})
		})
	}
	if stopWait <= 4*time.Second || stopWait >= 5*time.Second {
		t.Errorf("a stop takes %v", stopWait)
	}
}

// A stop signal during the first work counts in the second: one signal ends the context, the next
// one ends everything.
func TestSecondSignalInLaterWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestService()
		s.signals.Stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); err != nil || s.signals.Stopped.IsZero() {
			t.Fatal(err, s.signals.Stopped)
		}
		time.Sleep(2 * exit.SameSignal)
		s.signals.Stop <- syscall.SIGTERM
		if err := s.during(func(ctx context.Context) error { <-ctx.Done(); return nil }); !errors.Is(err, exit.ErrCutOff) {
			t.Fatal(err)
		}
	})
}

// The HTTP server accepts the host name that it listens on and the configured names.
func TestHTTPHosts(t *testing.T) {
	for listen, want := range map[string][]string{
		"jobs.example.com:9277": {"jobs.example.com", "a", "b"},
		"10.0.0.7:9277":         {"10.0.0.7", "a", "b"},
		"[::1]:9277":            {"::1", "a", "b"},
		":9277":                 {"a", "b"},
		"":                      {"a", "b"},
	} {
		if got := webOptions(config.HTTP{Listen: listen, Hosts: []string{"a", "b"}}, nil).Hosts; !reflect.DeepEqual(got, want) {
			t.Errorf("listen = %s: %q, want %q", listen, got, want)
		}
	}
}

// A hundred failures of one kind are one log line, whatever their port numbers. Each other kind has
// its own line.
func TestFailuresOfTheHTTPServer(t *testing.T) {
	var got []string
	f := &httpServer{spare: web.NewSparing(func(line string) { got = append(got, line) })}
	for n := range 100 {
		f.failed(fmt.Errorf("read tcp 127.0.0.1:%d: i/o timeout", 1000+n))
	}
	f.failed(errors.New("WRONGTYPE of a key"))
	f.failed(errors.New("NOPERM for zadd"))
	want := []string{"a request failed: read tcp 127.0.0.1:1000: i/o timeout", "a request failed: WRONGTYPE of a key", "a request failed: NOPERM for zadd"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The line to try works with any configuration of the next command: the default, a file that a
// search finds, or the file of -c.
func TestTryLine(t *testing.T) {
	at := func(host string, port int) config.Redis { return config.Redis{Host: host, Port: port} }
	for _, test := range []struct {
		c                  string
		configured, actual config.Redis
		want               string
	}{
		{"", at("127.0.0.1", 6379), at("127.0.0.1", 6379), "delayer push greetings 5 hello"},
		{"", at("127.0.0.1", 6379), at("127.0.0.1", 4123), "delayer --redis redis://127.0.0.1:4123 push greetings 5 hello"},
		{"", at("127.0.0.1", 7000), at("127.0.0.1", 7000), "delayer --redis redis://127.0.0.1:7000 push greetings 5 hello"},
		{"", at("example.org", 6379), at("127.0.0.1", 6379), "delayer --redis redis://127.0.0.1:6379 push greetings 5 hello"},
		{"/my conf", at("/run/redis.sock", 6379), at("127.0.0.1", 4123), "delayer -c '/my conf' --redis redis://127.0.0.1:4123 push greetings 5 hello"},
		{"", at("127.0.0.1", 6379), config.Redis{Host: "127.0.0.1", Port: 4123, Database: 3, Username: "u", Password: "p"}, "delayer --redis redis://u:PASSWORD@127.0.0.1:4123/3 push greetings 5 hello"},
	} {
		if got := tryLine(Options{Configuration: test.c}, test.configured, test.actual); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

// --dev listens only on loopback unless the configuration requires more: neither a remote host nor
// a unix socket changes that.
func TestDevListensOnLoopback(t *testing.T) {
	for _, host := range []string{"192.0.2.1", "/run/nowhere/redis.sock"} {
		redis, err := listenDev(config.Redis{Host: host, Port: 6379})
		redistest.Check(t, err)
		defer redis.Close()
		if !strings.HasPrefix(redis.Addr, "127.0.0.1:") {
			t.Errorf("%s: listens on %s", host, redis.Addr)
		}
	}
}
