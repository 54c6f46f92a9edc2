package config

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// key is one setting of a Config.
type key struct {
	section, name string
	standard      string // its value in the shipped file
	// set puts the value in its place. Its error says what is wrong and what
	// would be right.
	set func(value string) error
}

func (k key) String() string { return k.section + "." + k.name }

// secret values appear in no message.
func (k key) secret() bool { return k.name == "password" }

var sections = []string{"delayer", "redis"}

// largest is the largest int of every machine.
const largest = 1<<31 - 1

// keys is the only place that knows the keys, their defaults and their limits.
// Where 0 is no limit, -1 is one way to write it.
func (c *Config) keys() []key {
	d, r := &c.Delayer, &c.Redis
	return []key{
		{"delayer", "pid", "/var/run/delayer.pid", path(&d.PID)},
		{"delayer", "timer_interval", "1000", number(&d.TimerInterval, time.Millisecond, 1, 86_400_000)},
		{"delayer", "access_log", "logs/access.log", path(&d.AccessLog)},
		{"delayer", "error_log", "logs/error.log", path(&d.ErrorLog)},
		{"delayer", "log_format", "text", word(func(v string) { d.LogFormat = v }, "text", "json")},
		{"delayer", "dead_max_age", "1209600", number(&d.DeadMaxAge, time.Second, 0, largest)},
		{"delayer", "dead_max", "0", number(&d.DeadMax, 1, 0, largest)},

		{"redis", "host", "127.0.0.1", host(&r.Host)},
		{"redis", "port", "6379", number(&r.Port, 1, 1, 65535)},
		{"redis", "database", "0", number(&r.Database, 1, 0, largest)},
		{"redis", "username", "", text(&r.Username)},
		{"redis", "password", "", text(&r.Password)},
		{"redis", "prefix", "delayer:", prefix(&r.Prefix)},
		{"redis", "max_idle", "2", number(&r.MaxIdle, 1, -1, largest)},
		{"redis", "max_active", "20", number(&r.MaxActive, 1, -1, largest)},
		{"redis", "idle_timeout", "3600", number(&r.IdleTimeout, time.Second, -1, largest)},
		{"redis", "conn_max_lifetime", "3600", number(&r.ConnMaxLifetime, time.Second, -1, largest)},
		{"redis", "connect_timeout", "3000", number(&r.ConnectTimeout, time.Millisecond, 1, largest)},
		{"redis", "read_timeout", "3000", number(&r.ReadTimeout, time.Millisecond, 1, largest)},
		{"redis", "write_timeout", "3000", number(&r.WriteTimeout, time.Millisecond, 1, largest)},
		{"redis", "tls", "false", word(func(v string) { r.TLS = v == "true" }, "true", "false")},
		{"redis", "tls_ca", "", path(&r.TLSCA)},
		{"redis", "tls_cert", "", path(&r.TLSCert)},
		{"redis", "tls_key", "", path(&r.TLSKey)},
		{"redis", "tls_skip_verify", "false", word(func(v string) { r.TLSSkipVerify = v == "true" }, "true", "false")},
	}
}

// number reads plain decimal digits only: ini.v1 would take 010 for 8.
func number[N int | time.Duration](field *N, unit N, least, most int64) func(string) error {
	of := map[N]string{1: "", N(time.Millisecond): " of milliseconds", N(time.Second): " of seconds"}[unit]
	want := fmt.Sprintf("want a whole number%s from %d to %d", of, least, most)
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			n, err = strconv.ParseInt(value, 0, 64)
		}
		*field = N(max(n, 0)) * unit
		switch {
		case value == "":
			return errors.New("is empty: " + want)
		case errors.Is(err, strconv.ErrRange), err == nil && (n < least || n > most):
			return fmt.Errorf("%.40q is out of range: %s", value, want)
		case err != nil:
			return fmt.Errorf("%.40q is not a whole number: %s", value, want)
		case strconv.FormatInt(n, 10) != value:
			return fmt.Errorf("%.40q is not in plain decimal digits: write %d", value, n)
		}
		return nil
	}
}

var reference = regexp.MustCompile(`%\([^)]+\)s`)

// check refuses what no value may hold: the line break at the end of a secret's file,
// or of half an old Macintosh's; and %(name)s, which the original replaced by another
// key's value. A password may well hold such letters.
func (k key) check(value string) error {
	found := reference.FindString(value)
	switch {
	case strings.ContainsFunc(value, unicode.IsControl):
		return errors.New("has a line break, a tab or another control character: remove it")
	case found != "" && !k.secret():
		return fmt.Errorf("%.40q is not replaced by another key's value: write the value itself", found)
	}
	return nil
}

// word has one spelling for each value; ini.v1's on, y and T mean nothing to a reader
// who has not read its source.
func word(put func(string), allowed ...string) func(string) error {
	return func(value string) error {
		if put(value); !slices.Contains(allowed, value) {
			return fmt.Errorf("%.40q is unknown: want %s", value, strings.Join(allowed, " or "))
		}
		return nil
	}
}

func text(field *string) func(string) error {
	return func(value string) error {
		*field = value
		return nil
	}
}

func path(field *string) func(string) error {
	return func(value string) error {
		*field = absolute(value)
		if value == "~" || strings.HasPrefix(value, "~/") {
			return errors.New("~ is not replaced by the home folder: write the whole path")
		}
		return nil
	}
}

func prefix(field *string) func(string) error {
	return func(value string) error {
		*field = value
		const want = `want the beginning of every key's name, such as "delayer:"`
		switch {
		case value == "":
			return errors.New("is empty: " + want)
		case strings.ContainsFunc(value, unicode.IsSpace):
			return fmt.Errorf("%.40q has a space: %s", value, want)
		}
		return nil
	}
}

var (
	hostName    = regexp.MustCompile(`^[^\s/\\@:[\]]+$`)
	hostAndPort = regexp.MustCompile(`^([^\s/\\@:[\]]+|\[[^\s/\\@[\]]+\]):(\w+)$`)
)

// host does not repeat what may be a URL with a password in it. The original needs
// the brackets around an IPv6 address; ours does not.
const hostWanted = "want a name, an address, or the path of a unix socket that begins with /, ./ or ../"

func host(field *string) func(string) error {
	return func(value string) error {
		*field = value
		bare := strings.TrimSuffix(strings.TrimPrefix(value, "["), "]")
		if _, err := netip.ParseAddr(bare); err == nil && (bare == value || value == "["+bare+"]") {
			*field = bare
			return nil
		}
		switch m := hostAndPort.FindStringSubmatch(value); {
		case value == "":
			return errors.New("is empty: " + hostWanted)
		case isRelative(value):
			*field = absolute(value)
		case m != nil:
			return fmt.Errorf("%.60q holds a port: write host = %.60s and port = %.60s", value, strings.Trim(m[1], "[]"), m[2])
		case !isSocket(value) && !hostName.MatchString(value):
			return errors.New("is not a host: " + hostWanted)
		}
		return nil
	}
}
