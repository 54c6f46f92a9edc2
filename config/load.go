package config

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/nearest"
	"github.com/mix-basic/delayer/internal/variables"
)

// Loaded is a Config, its sources and warnings for the user.
type Loaded struct {
	Config
	Settings []Setting // without schedules
	Warnings Problems
}

// Setting is the effective value of a key, unless it is a secret, and where it comes from: FILE:LINE, a variable's name, or
// what Override says. Without From it is the default.
type Setting struct{ Name, Value, From string }

// Load reads the file and applies the environment: DELAYER_REDIS_* and DELAYER_HTTP_* override [redis] and
// [http], DELAYER_* overrides [delayer]. It also reads secrets from their files. An empty path means no file.
//
// If any problem is an error, err has all Problems and the Config is useless; otherwise they are Warnings. An
// unreadable file is an error that wraps the cause: fs.ErrNotExist, fs.ErrPermission …
func Load(path string) (c Loaded, err error) {
	l := newLoader()
	if path != "" {
		source, err := os.ReadFile(path)
		if err != nil {
			return c, fmt.Errorf("configuration: %w", err)
		}
		l.file(path, source)
	}
	c.Config, c.Warnings, err = l.result(os.Environ())
	for _, k := range c.keys() {
		s := Setting{Name: k.String(), Value: k.standard}
		if at, set := l.set[k.String()]; set {
			s.Value, s.From = k.shown(l.values[k.String()]), strings.TrimSuffix(cmp.Or(at.file, at.name), ": ")
		}
		c.Settings = append(c.Settings, s)
	}
	return c, err
}

// Override sets keys, by their names in Settings; from says where the values come from.
func (c *Loaded) Override(from string, values map[string]string) error {
	for i, k := range c.keys() {
		value, is := values[k.String()]
		if !is {
			continue
		}
		if err := k.set(value); err != nil {
			return fmt.Errorf("%s: %s: %w", from, k, err)
		}
		if s := &c.Settings[i]; s.Value != k.shown(value) {
			s.Value, s.From = k.shown(value), from
		}
	}
	return nil
}

// Problems are mistakes in a configuration, one per line: "FILE:LINE: section.key: what would be right", or
// with the variable's name. They never reveal secrets.
type Problems []string

// Error returns the lines, without a trailing line break.
func (p Problems) Error() string { return strings.Join(p, "\n") }

// loader collects a Config and its problems.
type loader struct {
	config    Config
	path      place               // of the file; empty without one
	keys      map[string]key      // by section.name
	names     map[string][]string // per section
	set       map[string]place    // where keys were set, by section.name
	values    map[string]string   // their values as written
	schedules []*Schedule
	problems  Problems
	failed    bool // some problem is an error
}

// place is what a problem refers to: "FILE:LINE: " and "section.key: ", either of which may be empty.
type place struct{ file, name string }

func newLoader() *loader {
	l := &loader{config: Default(), keys: map[string]key{}, names: map[string][]string{}, set: map[string]place{}, values: map[string]string{}}
	for _, k := range l.config.keys() {
		l.keys[k.String()] = k
		l.names[k.section] = append(l.names[k.section], k.name)
	}
	return l
}

func (l *loader) fail(at place, format string, args ...any) {
	l.failed = true
	l.problems = append(l.problems, at.file+at.name+fmt.Sprintf(format, args...))
}

func (l *loader) warn(at place, format string, args ...any) {
	l.problems = append(l.problems, at.file+"warning: "+at.name+fmt.Sprintf(format, args...))
}

// put sets a key.
func (l *loader) put(at place, k key, value string) {
	l.set[k.String()], l.values[k.String()] = at, value
	if strings.ContainsFunc(value, unicode.IsControl) || !utf8.ValidString(value) {
		l.fail(at, "has a line break, a tab, another control character, or bytes that are not UTF-8: remove them")
	} else if err := k.set(value); err != nil {
		l.fail(at, "%v", err)
	}
}

// result checks keys that depend on each other, unless an earlier error may be the cause.
func (l *loader) result(environ []string) (Config, Problems, error) {
	l.environment(environ)
	l.endSchedules()
	if l.path.file != "" && len(l.set)+len(l.problems) == 0 {
		l.warn(l.path, "sets nothing: every key has its default")
	}
	if !l.failed {
		l.readSecrets()
	}
	if !l.failed {
		l.checkTogether()
	}
	if l.failed {
		return Config{}, nil, l.problems
	}
	return l.config, l.problems, nil
}

func (l *loader) checkTogether() {
	r, h := &l.config.Redis, &l.config.HTTP
	hasSecret, isOpen := h.Token != "" || len(h.Users) > 0, h.Listen != "" && !isLoopback(h.Listen)
	for _, check := range []struct {
		ok           bool
		key, message string
	}{
		{r.TLS || r.TLSCA == "", "redis.tls_ca", "needs tls = true"},
		{r.TLS || r.TLSCert == "", "redis.tls_cert", "needs tls = true"},
		{r.TLS || r.TLSKey == "", "redis.tls_key", "needs tls = true"},
		{r.TLS || !r.TLSSkipVerify, "redis.tls_skip_verify", "needs tls = true"},
		{r.TLSCert == "" || r.TLSKey != "", "redis.tls_cert", "needs tls_key as well"},
		{r.TLSKey == "" || r.TLSCert != "", "redis.tls_key", "needs tls_cert as well"},
		{r.Username == "" || r.Password != "", "redis.username", "needs a password as well"},
		{len(r.Sentinels) == 0 || r.SentinelMaster != "", "redis.sentinels", "needs sentinel_master as well"},
		{r.SentinelMaster == "" || len(r.Sentinels) > 0, "redis.sentinel_master", "needs sentinels as well"},
		{r.SentinelPassword == "" || len(r.Sentinels) > 0, "redis.sentinel_password", "needs sentinels as well"},
		{r.SentinelUsername == "" || r.SentinelPassword != "", "redis.sentinel_username", "needs a sentinel_password as well"},
		{len(r.Sentinels) == 0 || !isSocket(r.Host), "redis.host", "is a unix socket, but sentinels is set: keep one of the two"},
		{len(r.Cluster) == 0 || len(r.Sentinels) == 0, "redis.cluster", "can't be combined with sentinels: keep one of the two"},
		{len(r.Cluster) == 0 || !isSocket(r.Host), "redis.host", "is a unix socket, but cluster is set: keep one of the two"},
		{len(r.Cluster) == 0 || r.Database == 0, "redis.database", "must be 0 in a cluster"},
		{len(r.Cluster) == 0 || r.Partitions > 1 || tagged.MatchString(r.Prefix), "redis.cluster",
			"needs partitions, for example 16, the same in all programs, so that the keys of each are in one slot; or a prefix with a tag, such as {delayer}:"},
		{r.Partitions == 1 || !strings.ContainsAny(r.Prefix, "{}"), "redis.prefix", "has braces, which several partitions add themselves: " +
			"remove them, or set partitions = 1"},
		{h.TLSCert == "" || h.TLSKey != "", "http.tls_cert", "needs tls_key as well"},
		{h.TLSKey == "" || h.TLSCert != "", "http.tls_key", "needs tls_cert as well"},
		{hasSecret || h.Insecure || !isOpen, "http.listen", "lets other machines read, push and purge jobs: " +
			"set token or users, listen on 127.0.0.1, or set insecure = true"},
	} {
		if !check.ok {
			l.fail(l.set[check.key], "%s", check.message)
		}
	}
	l.checkPlace("redis.sentinels", r.Sentinels)
	l.checkPlace("redis.cluster", r.Cluster)
	if hasSecret && isOpen && h.TLSCert == "" {
		l.warn(l.set["http.listen"], "token and passwords travel unencrypted: set tls_cert and tls_key, unless a proxy encrypts")
	}
	if r.MaxActive > 0 && r.MaxIdle > r.MaxActive {
		if at, written := l.set["redis.max_idle"]; written {
			l.warn(at, "max_idle is %d but max_active is %d: at most %[2]d are kept", r.MaxIdle, r.MaxActive)
		}
		r.MaxIdle = r.MaxActive
	}
}

// checkPlace reports an environment and a file that locate Redis in different ways.
func (l *loader) checkPlace(place string, addrs []string) {
	other := l.set[place]
	if len(addrs) == 0 || other.file == "" {
		return
	}
	for _, key := range []string{"redis.host", "redis.port"} {
		if at, is := l.set[key]; is && at.file == "" {
			l.fail(at, "can't be combined with %s (%s): keep one of the two", place, strings.TrimSuffix(other.file, ": "))
		}
	}
}

// environmentPrefix returns the prefix of the variables that override keys of the section: DELAYER_REDIS_ for
// redis, DELAYER_ for delayer.
func environmentPrefix(section string) string {
	if section == "delayer" {
		return "DELAYER_"
	}
	return "DELAYER_" + strings.ToUpper(section) + "_"
}

// ofDaemon reports whether a variable says where a daemon's HTTP server is, for commands. Without the address its token is meant
// to be DELAYER_HTTP_TOKEN.
func ofDaemon(name string) bool {
	return name == variables.URL || name == variables.Token && os.Getenv(variables.URL) != ""
}

// split returns the section of a variable, if it is a setting by its prefix. Case is ignored, as on Windows.
func split(name, value string) (section, suffix string, ours bool) {
	name = strings.ToUpper(name)
	if strings.HasPrefix(name, variables.Job) || strings.HasPrefix(name, variables.Header) || name == variables.RedisURL || ofDaemon(name) || isServiceLink(name, value) {
		return "", "", false
	}
	for _, section := range []string{"redis", "http", "delayer"} {
		if suffix, ours := strings.CutPrefix(name, environmentPrefix(section)); ours {
			return section, suffix, true
		}
	}
	return "", "", false
}

// environment applies the variables, which override the file even if they are empty.
func (l *loader) environment(environ []string) {
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if section, suffix, ours := split(name, value); ours {
			l.variable(place{name: name + ": "}, section, suffix, value)
		}
	}
}

func (l *loader) variable(at place, section, suffix, value string) {
	k, known := l.keys[section+"."+strings.ToLower(suffix)]
	report := l.fail // a typo could drop Redis's password or open the HTTP server
	if section == "delayer" {
		report = l.warn
	}
	meant := l.meantVariable(section, suffix)
	switch {
	case known:
		l.forgetTwin(k, value)
		l.put(at, k, value)
	case meant != "":
		report(at, "unknown variable, did you mean %s?", meant)
	default:
		report(at, "unknown variable: [%s] has %s", section, strings.Join(l.names[section], ", "))
	}
}

// meantVariable returns the variable that a misspelt one probably stands for, in its own section or another.
func (l *loader) meantVariable(section, suffix string) string {
	for _, s := range append([]string{section}, sections...) {
		if meant := nearest.Of(suffix, l.names[s]); meant != "" {
			return environmentPrefix(s) + strings.ToUpper(meant)
		}
	}
	return ""
}

// serviceLink matches variables that Kubernetes and docker --link add to containers for every service: of a service delayer-redis
// DELAYER_REDIS_SERVICE_HOST, DELAYER_REDIS_PORT_6379_TCP_ADDR …
var serviceLink = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_[A-Z0-9_]+)?$|_PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?$`)

// isServiceLink also recognizes DELAYER_REDIS_PORT=tcp://10.0.0.7:6379.
func isServiceLink(name, value string) bool {
	return serviceLink.MatchString(name) || strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://")
}
