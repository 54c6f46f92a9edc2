package config

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// number accepts plain decimal digits only: ini.v1 would read 010 as 8.
func number[N int | time.Duration](field *N, unit N, least, most int64) func(string) error {
	return func(value string) error {
		n, err := strconv.ParseInt(value, 10, 64)
		*field = N(max(n, 0)) * unit
		if err != nil || n < least || n > most || strconv.FormatInt(n, 10) != value {
			of := map[N]string{1: "", N(time.Millisecond): " of milliseconds", N(time.Second): " of seconds"}[unit]
			return fmt.Errorf("want a whole number%s from %d to %d, in decimal digits without leading zeros", of, least, most)
		}
		return nil
	}
}

// checked stores a text and checks it.
func checked(field *string, check func(value string) error) func(string) error {
	return func(value string) error {
		*field = value
		return check(value)
	}
}

func anyText(field *string) func(string) error {
	return checked(field, func(string) error { return nil })
}

// text accepts what the pattern matches as a whole.
func text(field *string, pattern, want string) func(string) error {
	return checked(field, func(value string) error {
		if !regexp.MustCompile("^(" + pattern + ")$").MatchString(value) {
			return errors.New("want " + want)
		}
		return nil
	})
}

// flag has one spelling for each value. ini.v1 also accepts on, y and T, which readers would not expect.
func flag(field *bool) func(string) error {
	return func(value string) error {
		*field = value == "true"
		return text(new(string), "true|false", "true or false")(value)
	}
}

func path(field *string) func(string) error {
	return func(value string) error {
		*field = absolute(value)
		if value == "~" || strings.HasPrefix(value, "~/") {
			return errors.New("want the full path: ~ is not expanded")
		}
		return nil
	}
}

// absolute makes a path independent of later changes of directory. If the current directory is gone the path
// stays as it is, and opening it fails.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); path != "" && err == nil {
		return abs
	}
	return path
}

func host(field *string) func(string) error {
	return func(value string) error {
		name, isName := hostOf(value)
		switch *field = name; {
		case isRelative(value):
			*field = absolute(value)
		case isSocket(value):
			*field = value
		case !isName:
			return errors.New("want a name or an address without a port, or the path of a unix socket that begins with /, ./ or ../")
		}
		return nil
	}
}

var hostName = regexp.MustCompile(`^[^\s/\\@:[\],*]+$`)

// hostOf returns a name, or an address without the brackets that the original needs.
func hostOf(value string) (host string, ok bool) {
	host = strings.Trim(value, "[]")
	_, err := netip.ParseAddr(host)
	return host, err == nil || hostName.MatchString(host)
}

// addrOf reads an address; usual is the default port.
func addrOf(usual string) func(item string) (addr string, ok bool) {
	return func(item string) (string, bool) {
		host, port, err := net.SplitHostPort(item)
		if err != nil {
			host, port = item, usual
		}
		host, ok := hostOf(host)
		return net.JoinHostPort(host, port), ok && number(new(int), 1, 1, 65535)(port) == nil
	}
}

var tagged = regexp.MustCompile(`^[^{]*\{[^}]+\}`)

// checkListen accepts an address without a host, which means all interfaces.
func checkListen(value string) error {
	host, port, err := net.SplitHostPort(value)
	_, isHost := hostOf(host)
	if value != "" && (err != nil || host != "" && !isHost || number(new(int), 1, 0, 65535)(port) != nil) {
		return errors.New("want host:port, such as 127.0.0.1:9277 or [::1]:9277")
	}
	return nil
}

// isLoopback reports whether only this machine can reach the address.
func isLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback() || strings.EqualFold(host, "localhost")
}

// checkToken accepts a token that is long and varied enough not to be guessed, like a generated one.
func checkToken(value string) error {
	if err := text(new(string), "[!-~]{16,}|", "16 or more letters, digits and punctuation, so that it can't be guessed")(value); err != nil {
		return err
	}
	if value != "" && !isVaried(value) {
		return errors.New("want one that can't be guessed, with at least 6 different characters and no repeated part; `openssl rand -hex 16` makes one")
	}
	return nil
}

func isVaried(token string) bool {
	different := map[byte]bool{}
	for i := range len(token) {
		different[token[i]] = true
	}
	for part := 1; part <= len(token)/2; part++ {
		if strings.HasPrefix(strings.Repeat(token[:part], len(token)/part+1), token) {
			return false
		}
	}
	return len(different) >= 6
}

// users reads a list of users with one password each.
func users(field *[]User) func(string) error {
	read := list(field, user, "name:password, name:password; a password has 8 or more characters and no comma")
	return func(value string) error {
		if err := read(value); err != nil {
			return err
		}
		names := map[string]bool{}
		for i, u := range *field {
			if names[u.Name] { // which may be part of a password
				return fmt.Errorf("want each user once: user %d has the name of another one", i+1)
			}
			names[u.Name] = true
		}
		return nil
	}
}

// user reads a name and a password that people can type. A token has to be longer, because it is generated.
func user(item string) (u User, ok bool) {
	name, password, _ := strings.Cut(item, ":")
	return User{name, password}, name != "" && len(password) >= 8
}

// list reads items separated by commas and skips empty ones.
func list[T any](field *[]T, read func(item string) (T, bool), want string) func(string) error {
	return func(value string) error {
		*field = nil
		for item := range strings.SplitSeq(value, ",") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			element, ok := read(item)
			if !ok {
				return errors.New("want " + want)
			}
			*field = append(*field, element)
		}
		return nil
	}
}

// secrets are the keys whose values appear in no message. Each has a twin with the suffix _file that names a
// file with the value: systemd and containers provide secrets as files.
var secrets = []string{"password", "sentinel_password", "token", "users"}

func (k key) secret() bool { return slices.Contains(secrets, k.name) }

// shown returns the value, or what stands for a secret.
func (k key) shown(value string) string {
	if k.secret() && value != "" {
		return "(secret)"
	}
	return value
}

// forgetTwin lets the environment override both forms: a secret set there in one form removes what the file says
// in the other.
func (l *loader) forgetTwin(k key, value string) {
	name, isFile := strings.CutSuffix(k.String(), "_file")
	if !isFile {
		name += "_file"
	}
	if l.set[name].file != "" && (!isFile || value != "") {
		l.keys[name].set("")
		delete(l.set, name)
		delete(l.values, name)
	}
}

// readSecrets reads the secrets' files.
func (l *loader) readSecrets() {
	for _, k := range l.config.keys() {
		name := k.String() + "_file"
		path, at := l.values[name], l.set[name]
		switch {
		case !k.secret() || path == "":
		case l.values[k.String()] != "":
			l.fail(at, "can't be combined with %s: keep one of the two", k.name)
		default:
			content, err := readSecret(absolute(path))
			if err != nil {
				l.fail(at, "%v", err)
				continue
			}
			if k.name == "users" { // a file has one user per line
				content = strings.ReplaceAll(strings.ReplaceAll(content, "\r\n", ","), "\n", ",")
			}
			l.put(at, k, content)
		}
	}
}

// maxSecret is the maximum size of a secret's file in bytes.
const maxSecret = 64 << 10

// readSecret returns a file's content without the line break that editors and echo append.
func readSecret(path string) (string, error) {
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: want a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(string(content), "\ufeff"), "\n"), "\r")
	switch {
	case err != nil:
		return "", err
	case len(content) > maxSecret:
		return "", fmt.Errorf("%s: want at most 64 KiB", path)
	case text == "":
		return "", errors.New(path + ": the file is empty")
	}
	return text, nil
}
