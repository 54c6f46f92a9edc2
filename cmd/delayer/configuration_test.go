package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/redistest"
)

// The file says "none" and "no limit" with 0, the client package with a negative
// number; its own 0 would be a default.
func TestPoolOptions(t *testing.T) {
	r := config.Redis{
		Host: "example.org", Port: 6380, Username: "u", Password: "p", Database: 3,
		MaxActive: 20, MaxIdle: 2, IdleTimeout: time.Hour, ConnMaxLifetime: time.Minute,
		ConnectTimeout: 1, ReadTimeout: 2, WriteTimeout: 3,
	}
	want := client.PoolOptions{
		Addr: "example.org:6380", Username: "u", Password: "p", Database: 3,
		MaxActive: 20, MaxIdle: 2, IdleTimeout: time.Hour, MaxConnLifetime: time.Minute,
		ConnectTimeout: 1, ReadTimeout: 2, WriteTimeout: 3,
	}
	if got, err := poolOptions(r); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	r.MaxActive, r.MaxIdle, r.IdleTimeout, r.ConnMaxLifetime = 0, 0, 0, 0
	want.MaxActive, want.MaxIdle, want.IdleTimeout, want.MaxConnLifetime = -1, -1, -1, 0
	if got, err := poolOptions(r); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A command needs no file, but says which Redis it uses when nobody has told it. A
// daemon needs one.
func TestFindConfigurationWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "AppData"} {
		t.Setenv(name, dir)
	}
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, config.EnvironmentPrefix("redis")) {
			t.Setenv(name, "") // so that it is there again after the test
			os.Unsetenv(name)
		}
	}
	if path, _ := config.Search(); path != "" {
		t.Skip("this machine has " + path)
	}
	pop, _ := findCommand([]string{"pop"})
	command := options{command: pop}
	said := func(o options) string {
		t.Helper()
		found, err := findConfiguration(o)
		check(t, err)
		var b strings.Builder
		printWarnings(&b, found)
		return b.String()
	}
	if got := said(command); !strings.HasPrefix(got, "no configuration file found (looked for delayer.conf, ") ||
		!strings.HasSuffix(got, "): using redis on 127.0.0.1:6379\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("a command says %q", got)
	}
	if got := said(options{dev: true}); got != "" {
		t.Errorf("--dev says %q", got)
	}
	if _, err := findConfiguration(options{}); err == nil {
		t.Error("the daemon needs no file")
	}

	write(t, filepath.Join(dir, "other.conf"), "[redis]\nhost = h\n")
	if got := said(options{command: command.command, configuration: "other.conf"}); got != "" {
		t.Errorf("with -c it says %q", got)
	}
	t.Setenv("DELAYER_REDIS_PASSWORD", "")
	if got := said(command); got != "" {
		t.Errorf("with a variable it says %q", got)
	}
	os.Unsetenv("DELAYER_REDIS_PASSWORD")
	write(t, filepath.Join(dir, "delayer.conf"), "[redis]\nhsot = h\n\nmax_idle = 30\n")
	want := "delayer.conf:2: warning: redis.hsot: unknown key, did you mean host?\n" +
		"delayer.conf:4: warning: redis.max_idle: max_idle is 30 and max_active is 20: no more than 20 are kept\n"
	if got := said(command); got != want {
		t.Errorf("with a file that is found it says %q, want %q", got, want)
	}
}

func TestTLSConfig(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.WriteCertificate(t, cert, key)
	if c, err := tlsConfig(config.Redis{TLSCA: "unused"}); c != nil || err != nil {
		t.Errorf("without TLS: %v, %v", c, err)
	}
	c, err := tlsConfig(config.Redis{TLS: true, TLSCA: cert, TLSCert: cert, TLSKey: key})
	if err != nil || c.RootCAs == nil || len(c.Certificates) != 1 || c.InsecureSkipVerify {
		t.Errorf("all files: %+v, %v", c, err)
	}
	c, err = tlsConfig(config.Redis{TLS: true, TLSSkipVerify: true})
	if err != nil || c.RootCAs != nil || len(c.Certificates) != 0 || !c.InsecureSkipVerify {
		t.Errorf("no files: %+v, %v", c, err)
	}
}

// An error names the key of the file that is wrong.
func TestTLSConfigErrors(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.WriteCertificate(t, cert, key)
	missing, text := filepath.Join(dir, "missing.pem"), filepath.Join(dir, "text.pem")
	check(t, os.WriteFile(text, []byte("no PEM"), 0o600))
	for _, test := range []struct {
		ca, cert, key string
		keys, file    string
		missing       bool
	}{
		{missing, "", "", "redis.tls_ca: ", missing, true},
		{text, "", "", "redis.tls_ca: ", text, false},
		{key, "", "", "redis.tls_ca: ", key, false},
		{"", missing, key, "redis.tls_cert: ", missing, true},
		{"", cert, missing, "redis.tls_key: ", missing, true},
		{"", text, key, "redis.tls_cert, redis.tls_key: ", text, false},
		{"", cert, cert, "redis.tls_cert, redis.tls_key: ", cert, false},
	} {
		_, err := poolOptions(config.Redis{TLS: true, TLSCA: test.ca, TLSCert: test.cert, TLSKey: test.key})
		if err == nil || !strings.HasPrefix(err.Error(), test.keys) || !strings.Contains(err.Error(), test.file) || errors.Is(err, fs.ErrNotExist) != test.missing {
			t.Errorf("%+v: %v", test, err)
		}
	}
}
