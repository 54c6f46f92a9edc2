package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"

	"gopkg.in/ini.v1"
)

// Load reads the file, and lets DELAYER_REDIS_* variables override its [redis]
// section. Its error is Problems: everything that is wrong, one line each,
// "FILE:LINE: section.key: what is wrong, what would be right"; it wraps the
// cause (fs.ErrNotExist, fs.ErrPermission …) when the file can't be read. The
// Config is of use only without an error.
func Load(path string) (Config, error) {
	l := newLoader()
	name := cmp.Or(path, `""`)
	if source, err := readFile(path); err != nil {
		l.refuse(Problem{File: name, Message: reason(err), Err: err})
	} else {
		l.file(name, source)
	}
	l.environment(os.Environ())
	return l.result()
}

// FromEnvironment is Load without a file: the defaults and the DELAYER_REDIS_*
// variables.
func FromEnvironment() (Config, error) {
	l := newLoader()
	l.environment(os.Environ())
	return l.result()
}

// maxFileSize is far above any configuration; it keeps a -c /dev/zero from
// eating the memory.
const maxFileSize = 1 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, errors.New("is a folder: want a file")
	}
	source, err := io.ReadAll(io.LimitReader(f, maxFileSize+1))
	if err == nil && len(source) > maxFileSize {
		err = fmt.Errorf("is larger than %d bytes: this is no configuration file", maxFileSize)
	}
	return source, err
}

// reason leaves the path out, which stands in front of it already.
func reason(err error) string {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err.Error()
	}
	return err.Error()
}

// loader gathers a Config and what is wrong with it.
type loader struct {
	config   Config
	problems Problems
	source   map[string]Problem // "redis.port" → where it was set, without a message
	bad      map[string]bool    // keys with a problem, which further checks leave alone
}

func newLoader() *loader {
	return &loader{config: Default(), source: map[string]Problem{}, bad: map[string]bool{}}
}

func (l *loader) refuse(p Problem) { l.problems = append(l.problems, p) }

// refuseKey reports a problem with a key at the place that set it.
func (l *loader) refuseKey(name, message string) {
	p := l.source[name]
	p.Message = message
	l.refuse(p)
}

func (l *loader) file(name string, source []byte) {
	source = bytes.TrimPrefix(source, []byte("\ufeff"))
	if bytes.HasPrefix(source, []byte("\xff\xfe")) || bytes.HasPrefix(source, []byte("\xfe\xff")) {
		l.refuse(Problem{File: name, Message: "is UTF-16: save it as UTF-8"})
		return
	}
	scanned := scan(name, string(source))
	l.problems = append(l.problems, scanned.problems...)
	maps.Copy(l.bad, scanned.spoilt)
	parsed, err := ini.LoadSources(ini.LoadOptions{UnescapeValueDoubleQuotes: true, IgnoreContinuation: true}, []byte(scanned.sound.String()))
	if err != nil { // its text is kept back: it may hold a password
		l.refuse(Problem{File: name, Message: "is not an ini file"})
		return
	}
	for _, k := range keys {
		if section := parsed.Section(k.section); section.HasKey(k.name) {
			l.source[k.String()] = Problem{File: name, Line: scanned.found[k.String()], Key: k.String()}
			l.set(k, section.Key(k.name).Value()) // not String, which replaces %(name)s
		}
	}
}

func (l *loader) set(k key, value string) {
	if err := k.set(&l.config, value); err != nil {
		l.bad[k.String()] = true
		l.refuseKey(k.String(), err.Error())
	}
}

// result checks what concerns several keys, and closes the account.
func (l *loader) result() (Config, error) {
	l.checkTogether()
	if len(l.problems) > 0 {
		return Config{}, l.problems.sorted()
	}
	return l.config, nil
}

// checkTogether checks the keys that depend on each other. One with a problem of
// its own is left out of it.
func (l *loader) checkTogether() {
	r := l.config.Redis
	const needsTLS = "is of use with tls = true only"
	l.require(r.TLS || r.TLSCA == "", "redis.tls_ca", "redis.tls", needsTLS)
	l.require(r.TLS || r.TLSCert == "", "redis.tls_cert", "redis.tls", needsTLS)
	l.require(r.TLS || r.TLSKey == "", "redis.tls_key", "redis.tls", needsTLS)
	l.require(r.TLS || !r.TLSSkipVerify, "redis.tls_skip_verify", "redis.tls", needsTLS)
	l.require(r.TLSCert == "" || r.TLSKey != "", "redis.tls_cert", "redis.tls_key", "needs tls_key as well")
	l.require(r.TLSKey == "" || r.TLSCert != "", "redis.tls_key", "redis.tls_cert", "needs tls_cert as well")
	l.require(r.Username == "" || r.Password != "", "redis.username", "redis.password", "needs a password as well")

	idle, active := "redis.max_idle", "redis.max_active"
	if l.source[idle].Key == "" {
		idle, active = active, idle // the one that was written gets the blame
	}
	l.require(r.MaxActive == 0 || r.MaxIdle <= r.MaxActive, idle, active,
		fmt.Sprintf("max_idle is %d and max_active is %d: want max_idle not above max_active", r.MaxIdle, r.MaxActive))
}

// require reports a problem with a key unless ok, or unless it or the key it
// depends on has one already.
func (l *loader) require(ok bool, name, dependsOn, message string) {
	if ok || l.bad[name] || l.bad[dependsOn] {
		return
	}
	l.refuseKey(name, message)
}
