package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

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
