package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// key is one setting. The table of all of them is the only place that knows
// their names: the file, the environment and the suggestions are read from it.
type key struct {
	section, name string
	secret        bool // its value appears in no message
	// set checks the value and puts it in its place. Its error says what is
	// wrong and what would be right.
	set func(c *Config, value string) error
}

func (k key) String() string { return k.section + "." + k.name }

var keys = []key{
	{section: "delayer", name: "pid", set: path(func(c *Config) *string { return &c.Delayer.PID })},
	{section: "delayer", name: "timer_interval", set: duration(dayInMilliseconds, func(c *Config) *time.Duration { return &c.Delayer.TimerInterval })},
	{section: "delayer", name: "access_log", set: path(func(c *Config) *string { return &c.Delayer.AccessLog })},
	{section: "delayer", name: "error_log", set: path(func(c *Config) *string { return &c.Delayer.ErrorLog })},
	{section: "delayer", name: "log_format", set: choice([]string{"text", "json"}, func(c *Config) *string { return &c.Delayer.LogFormat })},

	{section: "redis", name: "host", set: host},
	{section: "redis", name: "port", set: number(numbers{1, 65535}, func(c *Config) *int { return &c.Redis.Port })},
	{section: "redis", name: "database", set: number(fromZero, func(c *Config) *int { return &c.Redis.Database })},
	{section: "redis", name: "username", set: text(func(c *Config) *string { return &c.Redis.Username })},
	{section: "redis", name: "password", secret: true, set: secret(func(c *Config) *string { return &c.Redis.Password })},
	{section: "redis", name: "prefix", set: prefix},
	{section: "redis", name: "max_idle", set: number(fromZero, func(c *Config) *int { return &c.Redis.MaxIdle })},
	{section: "redis", name: "max_active", set: number(fromZero, func(c *Config) *int { return &c.Redis.MaxActive })},
	{section: "redis", name: "idle_timeout", set: duration(seconds, func(c *Config) *time.Duration { return &c.Redis.IdleTimeout })},
	{section: "redis", name: "conn_max_lifetime", set: duration(seconds, func(c *Config) *time.Duration { return &c.Redis.ConnMaxLifetime })},
	{section: "redis", name: "connect_timeout", set: duration(milliseconds, func(c *Config) *time.Duration { return &c.Redis.ConnectTimeout })},
	{section: "redis", name: "read_timeout", set: duration(milliseconds, func(c *Config) *time.Duration { return &c.Redis.ReadTimeout })},
	{section: "redis", name: "write_timeout", set: duration(milliseconds, func(c *Config) *time.Duration { return &c.Redis.WriteTimeout })},
	{section: "redis", name: "tls", set: boolean(func(c *Config) *bool { return &c.Redis.TLS })},
	{section: "redis", name: "tls_ca", set: path(func(c *Config) *string { return &c.Redis.TLSCA })},
	{section: "redis", name: "tls_cert", set: path(func(c *Config) *string { return &c.Redis.TLSCert })},
	{section: "redis", name: "tls_key", set: path(func(c *Config) *string { return &c.Redis.TLSKey })},
	{section: "redis", name: "tls_skip_verify", set: boolean(func(c *Config) *bool { return &c.Redis.TLSSkipVerify })},
}

// sections are the sections' names, in the table's order.
func sections() []string {
	var names []string
	for _, k := range keys {
		if !slices.Contains(names, k.section) {
			names = append(names, k.section)
		}
	}
	return names
}

// keyNames are the names of a section's keys, in the table's order.
func keyNames(section string) []string {
	var names []string
	for _, k := range keys {
		if k.section == section {
			names = append(names, k.name)
		}
	}
	return names
}

func findKey(section, name string) (key, bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.section == section && k.name == name })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

// numbers is a range, both ends included.
type numbers struct{ least, most int64 }

// fromZero ends where an int does on every machine.
var fromZero = numbers{0, 1<<31 - 1}

// parse reads plain decimal digits only. ini.v1 would take 010 for 8, and 0x10
// and 1_0 as well.
func (r numbers) parse(value, unit string) (int64, error) {
	want := fmt.Sprintf("want a whole number%s from %d to %d", unit, r.least, r.most)
	n, err := strconv.ParseInt(value, 10, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		n, err = strconv.ParseInt(value, 0, 64)
	}
	switch {
	case value == "":
		return 0, errors.New("is empty: " + want)
	case errors.Is(err, strconv.ErrRange), err == nil && (n < r.least || n > r.most):
		return 0, fmt.Errorf("%.40q is out of range: %s", value, want)
	case err != nil:
		return 0, fmt.Errorf("%.40q is not a whole number: %s", value, want)
	case strconv.FormatInt(n, 10) != value:
		return 0, fmt.Errorf("%.40q is not in plain decimal digits: write %d", value, n)
	}
	return n, nil
}

func number(r numbers, field func(*Config) *int) func(*Config, string) error {
	return func(c *Config, value string) error {
		n, err := r.parse(value, "")
		*field(c) = int(n)
		return err
	}
}

// durations is a range counted in a unit.
type durations struct {
	numbers
	unit time.Duration
	name string
}

var (
	dayInMilliseconds = durations{numbers{1, 86_400_000}, time.Millisecond, " of milliseconds"}
	milliseconds      = durations{numbers{1, fromZero.most}, time.Millisecond, " of milliseconds"}
	seconds           = durations{fromZero, time.Second, " of seconds"}
)

func duration(d durations, field func(*Config) *time.Duration) func(*Config, string) error {
	return func(c *Config, value string) error {
		n, err := d.parse(value, d.name)
		*field(c) = time.Duration(n) * d.unit
		return err
	}
}

// boolean has one spelling for each value; ini.v1's on, y and T mean nothing
// to a reader who has not read its source.
func boolean(field func(*Config) *bool) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = value == "true"
		return oneOf(value, []string{"true", "false"})
	}
}

func choice(allowed []string, field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = value
		return oneOf(value, allowed)
	}
}

func oneOf(value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%.40q is unknown: want %s", value, strings.Join(allowed, " or "))
}

func secret(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = value
		return printable(value)
	}
}

func text(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = value
		return cmp.Or(printable(value), literal(value))
	}
}

func path(field func(*Config) *string) func(*Config, string) error {
	return func(c *Config, value string) error {
		*field(c) = absolute(value)
		if value == "~" || strings.HasPrefix(value, "~/") {
			return errors.New("~ is not replaced by the home folder: write the whole path")
		}
		return cmp.Or(printable(value), literal(value))
	}
}

func prefix(c *Config, value string) error {
	const want = `want the beginning of every key's name, such as "delayer:"`
	c.Redis.Prefix = value
	switch {
	case value == "":
		return errors.New("is empty: " + want)
	case strings.ContainsFunc(value, unicode.IsSpace):
		return fmt.Errorf("%.40q has a space: %s", value, want)
	}
	return cmp.Or(printable(value), literal(value))
}

func host(c *Config, value string) error {
	c.Redis.Host = value
	if isRelative(value) {
		c.Redis.Host = absolute(value)
	}
	if err := cmp.Or(printable(value), literal(value)); err != nil || isSocket(value) {
		return err
	}
	return checkHost(value)
}

// checkHost finds what is often written where a host's name belongs. It does
// not repeat what may be a URL with a password in it.
func checkHost(value string) error {
	const want = "want a name, an address, or the path of a unix socket that begins with /, ./ or ../"
	name, port, splitErr := net.SplitHostPort(value)
	_, addressErr := netip.ParseAddr(value)
	switch {
	case addressErr == nil:
		return nil
	case value == "":
		return errors.New("is empty: " + want)
	case strings.ContainsAny(value, `/\@`), strings.ContainsFunc(value, unicode.IsSpace):
		return errors.New("is not a host: " + want)
	case splitErr == nil && name != "" && port != "":
		return fmt.Errorf("%.60q holds a port: write host = %.60s and port = %.60s", value, name, port)
	case strings.HasPrefix(value, "["):
		return fmt.Errorf("%.60q: write the address without brackets", value)
	case strings.Contains(value, ":"):
		return errors.New("is not a host: " + want)
	}
	return nil
}

// printable keeps a line break at the end of a secret's file, or the half of an
// old Macintosh's file, from becoming part of a value unseen.
func printable(value string) error {
	if strings.ContainsFunc(value, unicode.IsControl) {
		return errors.New("has a line break, a tab or another control character: remove it")
	}
	return nil
}

var reference = regexp.MustCompile(`%\([^)]+\)s`)

// literal refuses ini.v1's %(name)s, which the original replaced by the value of
// another key. A password is never looked into: it may well hold such letters.
func literal(value string) error {
	if found := reference.FindString(value); found != "" {
		return fmt.Errorf("%.40q is not replaced by another key's value: write the value itself", found)
	}
	return nil
}
