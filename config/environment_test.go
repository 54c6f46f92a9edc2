package config

import (
	"runtime"
	"strings"
	"testing"
)

func TestLoadTakesTheEnvironmentFirst(t *testing.T) {
	got, err := loadText("[redis]\nport = 1\npassword = file\ntls = true",
		"PATH=/bin", "DELAYER_REDIS_PORT=2", "DELAYER_REDIS_PASSWORD=a#b;\"c`=%(d)s ", "DELAYER_REDIS_TLS=false",
		"DELAYER_REDIS_MAX_ACTIVE=0", "DELAYER_PID=/x", "=C:=x")
	want := changed(func(c *Config) {
		c.Redis.Port, c.Redis.Password, c.Redis.MaxActive = 2, "a#b;\"c`=%(d)s ", 0
	})
	if err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	got, err = loadText("[redis]\npassword = file", "DELAYER_REDIS_PASSWORD=")
	if err != nil || got != Default() {
		t.Errorf("an empty variable: got %+v, %v; want no password", got, err)
	}
}

func TestEnvironmentOverridesEveryRedisKey(t *testing.T) {
	for _, k := range new(Config).keys() {
		if k.section != "redis" {
			continue
		}
		_, err := loadText("", "DELAYER_REDIS_"+strings.ToUpper(k.name)+"=\n")
		if got := messages(err); len(got) != 1 || !strings.HasPrefix(got[0], "DELAYER_REDIS_"+strings.ToUpper(k.name)+": ") {
			t.Errorf("a line break in the variable of %s: %q; want a problem of that name", k, got)
		}
	}
}

func TestEnvironmentIsRefused(t *testing.T) {
	for variable, want := range map[string][]string{
		"DELAYER_REDIS_PASSWORD=s3cret\n": {"DELAYER_REDIS_PASSWORD: has a line break, a tab or another control character: remove it"},
		"DELAYER_REDIS_PORT=":             {"DELAYER_REDIS_PORT: is empty: want a whole number from 1 to 65535"},
		"DELAYER_REDIS_HOST=":             {"DELAYER_REDIS_HOST: is empty: want a name, an address, or the path of a unix socket that begins with /, ./ or ../"},
		"DELAYER_REDIS_PREFIX=":           {`DELAYER_REDIS_PREFIX: is empty: want the beginning of every key's name, such as "delayer:"`},
		"DELAYER_REDIS_TLS=":              {`DELAYER_REDIS_TLS: "" is unknown: want true or false`},
		"DELAYER_REDIS_PASWORD=s3cret":    {"DELAYER_REDIS_PASWORD: unknown variable, did you mean DELAYER_REDIS_PASSWORD?"},
		"DELAYER_REDIS_password=s3cret":   {"DELAYER_REDIS_password: unknown variable, did you mean DELAYER_REDIS_PASSWORD?"},
		"DELAYER_REDIS_URL=redis://s3cret@h": {"DELAYER_REDIS_URL: unknown variable: DELAYER_REDIS_… is followed by " +
			strings.ToUpper(redisKeys)},
		"DELAYER_REDIS_PORT=tcp://10.0.0.7:6379":    {"DELAYER_REDIS_PORT: " + serviceLink},
		"DELAYER_REDIS_PORT_6379_TCP_ADDR=10.0.0.7": {"DELAYER_REDIS_PORT_6379_TCP_ADDR: " + serviceLink},
		"DELAYER_REDIS_SERVICE_HOST=10.0.0.7":       {"DELAYER_REDIS_SERVICE_HOST: " + serviceLink},
		"DELAYER_REDIS_USERNAME=a":                  {"DELAYER_REDIS_USERNAME: needs a password as well"},
	} {
		if runtime.GOOS == "windows" && strings.Contains(variable, "password") {
			continue // names have no case there
		}
		_, err := loadText("", variable)
		wantMessages(t, err, want...)
	}
}

func TestFromEnvironment(t *testing.T) {
	if got, warnings, err := FromEnvironment(); err != nil || len(warnings) > 0 || got != Default() {
		t.Errorf("no variable: got %+v, %v, %v; want the defaults", got, warnings, err)
	}
	t.Setenv("DELAYER_REDIS_HOST", "r")
	got, _, err := FromEnvironment()
	if want := changed(func(c *Config) { c.Redis.Host = "r" }); err != nil || got != want {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
	t.Setenv("DELAYER_REDIS_PORT", "0")
	_, _, err = FromEnvironment()
	wantMessages(t, err, `DELAYER_REDIS_PORT: "0" is out of range: want a whole number from 1 to 65535`)
}
