package daemon

import (
	"strings"
	"testing"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
