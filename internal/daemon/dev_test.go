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
		{"", at("127.0.0.1", 6379), at("127.0.0.1", 4123), "DELAYER_REDIS_PORT=4123 delayer push greetings 5 hello"},
		{"", at("127.0.0.1", 7000), at("127.0.0.1", 7000), "DELAYER_REDIS_PORT=7000 delayer push greetings 5 hello"},
		{"", at("example.org", 6379), at("127.0.0.1", 6379), "DELAYER_REDIS_HOST=127.0.0.1 delayer push greetings 5 hello"},
		{"/my conf", at("/run/redis.sock", 6379), at("127.0.0.1", 4123), "DELAYER_REDIS_HOST=127.0.0.1 DELAYER_REDIS_PORT=4123 delayer -c '/my conf' push greetings 5 hello"},
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
		redis, err := listenDev(config.Redis{Host: host, Port: 6379}, nil)
		redistest.Check(t, err)
		defer redis.Close()
		if !strings.HasPrefix(redis.Addr, "127.0.0.1:") {
			t.Errorf("%s: listens on %s", host, redis.Addr)
		}
	}
}
