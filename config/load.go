package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Load reads the file, and lets DELAYER_REDIS_* variables override its [redis]
// section. Problems are one line each, "FILE:LINE: section.key: what is wrong, what
// would be right".
//
// Where one of them is an error, all of them are the error, and the Config is of no
// use; it wraps the cause (fs.ErrNotExist, fs.ErrPermission …) when the file can't be
// read. Else they are warnings, for the user to see.
func Load(path string) (c Config, warnings Problems, err error) {
	l := newLoader()
	name := cmp.Or(path, `""`)
	source, err := readFile(path)
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err // which is without the path
	}
	if err != nil {
		l.problems = Problems{{File: name, Message: err.Error(), Err: err}}
	} else {
		l.file(name, source)
	}
	l.environment(os.Environ())
	return l.result()
}

// FromEnvironment is Load without a file: the defaults and the DELAYER_REDIS_*
// variables.
func FromEnvironment() (c Config, warnings Problems, err error) {
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

// loader gathers a Config and what is wrong with it.
type loader struct {
	config   Config
	keys     []key  // of config
	name     string // the file's; "" without one
	problems Problems
	source   map[string]Problem // "redis.port" → where it was set, without a message
	bad      map[string]bool    // keys with an error, which further checks leave alone
}

func newLoader() *loader {
	l := &loader{config: Default(), source: map[string]Problem{}, bad: map[string]bool{}}
	l.keys = l.config.keys()
	return l
}

// names are the names of a section's keys, in the table's order.
func (l *loader) names(section string) []string {
	var names []string
	for _, k := range l.keys {
		if k.section == section {
			names = append(names, k.name)
		}
	}
	return names
}

// fail adds an error at the place.
func (l *loader) fail(at Problem, format string, args ...any) {
	at.Message = fmt.Sprintf(format, args...)
	l.problems = append(l.problems, at)
}

// warn adds a warning at the place.
func (l *loader) warn(at Problem, format string, args ...any) {
	at.Warning = true
	l.fail(at, format, args...)
}

// set gives the key a value, unless reading it has failed.
func (l *loader) set(at Problem, k key, value string, err error) {
	l.source[k.String()] = at
	if err == nil {
		err = cmp.Or(k.set(value), k.check(value))
	}
	if err != nil {
		l.bad[k.String()] = true
		l.fail(at, "%v", err)
	}
}

// result checks the keys that depend on each other, and closes the account.
func (l *loader) result() (Config, Problems, error) {
	r := &l.config.Redis
	const needsTLS = "is of use with tls = true only"
	l.require(r.TLS || r.TLSCA == "", "tls_ca", "tls", needsTLS)
	l.require(r.TLS || r.TLSCert == "", "tls_cert", "tls", needsTLS)
	l.require(r.TLS || r.TLSKey == "", "tls_key", "tls", needsTLS)
	l.require(r.TLS || !r.TLSSkipVerify, "tls_skip_verify", "tls", needsTLS)
	l.require(r.TLSCert == "" || r.TLSKey != "", "tls_cert", "tls_key", "needs tls_key as well")
	l.require(r.TLSKey == "" || r.TLSCert != "", "tls_key", "tls_cert", "needs tls_cert as well")
	l.require(r.Username == "" || r.Password != "", "username", "password", "needs a password as well")
	if r.MaxActive > 0 && r.MaxIdle > r.MaxActive {
		if at, written := l.source["redis.max_idle"]; written {
			l.warn(at, "max_idle is %d and max_active is %d: no more than %[2]d are kept", r.MaxIdle, r.MaxActive)
		}
		r.MaxIdle = r.MaxActive
	}
	if l.name != "" && len(l.source)+len(l.problems) == 0 {
		l.warn(Problem{File: l.name}, "sets nothing: every key has its default")
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(-cmp.Compare(len(a.File), len(b.File)), cmp.Compare(a.Line, b.Line)) // one file at most
	})
	if slices.ContainsFunc(l.problems, func(p Problem) bool { return !p.Warning }) {
		return Config{}, nil, l.problems
	}
	return l.config, l.problems, nil
}

// require reports an error of a key of [redis] unless ok, or unless it or the key it
// depends on has one already.
func (l *loader) require(ok bool, name, dependsOn, message string) {
	if !ok && !l.bad["redis."+name] && !l.bad["redis."+dependsOn] {
		l.fail(l.source["redis."+name], "%s", message)
	}
}
