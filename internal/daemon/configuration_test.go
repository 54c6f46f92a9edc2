package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
	"github.com/mix-basic/delayer/internal/variables"
)

// The file uses 0 for "none" and "no limit", the client package a negative number; in the client, 0
// means the default.
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
	if got, err := poolOptions(r); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	r.MaxActive, r.MaxIdle, r.IdleTimeout, r.ConnMaxLifetime = 0, 0, 0, 0
	want.MaxActive, want.MaxIdle, want.IdleTimeout, want.MaxConnLifetime = -1, -1, -1, 0
	if got, err := poolOptions(r); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// A command needs no file, but prints which Redis it uses if nothing was configured.
func TestFindConfigurationWithoutAFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	said := func(o Options, variables ...string) string {
		t.Helper()
		var b strings.Builder
		shelltest.In(shelltest.Environment(t, variables...), func() {
			found, err := FindConfiguration(o)
			redistest.Check(t, err)
			if found.from != "" && found.from != "delayer.conf" && len(variables) == 0 {
				t.Skip("this machine has " + found.from)
			}
			found.PrintWarnings(&b)
		})
		return b.String()
	}
	shelltest.Write(t, filepath.Join(dir, "other.conf"), "[redis]\nhost = h\n")
	if got := said(Options{ForCommand: true}); !strings.HasPrefix(got, "no configuration file found (looked for delayer.conf, ") ||
		!strings.HasSuffix(got, "): using redis on 127.0.0.1:6379\n") || strings.Count(got, "\n") != 1 {
		t.Errorf("a command says %q", got)
	}
	for name, got := range map[string]string{
		"--dev": said(Options{Dev: true}), "with -c": said(Options{ForCommand: true, Configuration: "other.conf"}),
		"with a variable": said(Options{ForCommand: true}, "DELAYER_REDIS_PASSWORD="),
	} {
		if got != "" {
			t.Errorf("%s it says %q", name, got)
		}
	}
	shelltest.Write(t, filepath.Join(dir, "delayer.conf"), "[redis]\nhsot = h\n\nmax_idle = 30\n")
	want := "delayer.conf:2: warning: redis.hsot: unknown key, did you mean host?\n" +
		"delayer.conf:4: warning: redis.max_idle: max_idle is 30 but max_active is 20: at most 20 are kept\n"
	if got := said(Options{ForCommand: true}); got != want {
		t.Errorf("with a file that is found it says %q, want %q", got, want)
	}
}

// --redis overrides DELAYER_REDIS_URL, which overrides single variables, which override the file. Settings missing from a URL
// stay.
func TestURLGoesFirst(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "delayer.conf")
	shelltest.Write(t, conf, "[redis]\nhost = file\nusername = u\npassword = p\ndatabase = 3\nprefix = p:\npartitions = 4\nread_timeout = 7\nsentinels = s\nsentinel_master = m\n")
	from := func(o Options) client.PoolOptions {
		t.Helper()
		o.Configuration = conf
		found, err := FindConfiguration(o)
		redistest.Check(t, err)
		if r := found.Redis; r.Prefix != "p:" || r.ReadTimeout != 7*time.Millisecond {
			t.Errorf("%+v", r)
		}
		pool, err := poolOptions(found.Redis)
		redistest.Check(t, err)
		return pool
	}
	if p := from(Options{}); !slices.Equal(p.Sentinels, []string{"s:26379"}) || p.Password != "p" {
		t.Errorf("file: %+v", p)
	}
	t.Setenv("DELAYER_REDIS_SENTINELS", "variable")
	if p := from(Options{}); !slices.Equal(p.Sentinels, []string{"variable:26379"}) {
		t.Errorf("a variable: %+v", p)
	}
	t.Setenv(variables.RedisURL, "redis://url:1")
	if p := from(Options{}); p.Addr != "url:1" || len(p.Sentinels) > 0 || p.SentinelMaster+p.Username+p.Password != "" || p.Database != 0 || p.Partitions != 4 {
		t.Errorf("URL: %+v", p)
	}
	if p := from(Options{Dev: true}); !slices.Equal(p.Sentinels, []string{"variable:26379"}) {
		t.Errorf("--dev: %+v", p)
	}
	for _, url := range []string{
		"rediss://a:b@flag:2/5?partitions=8", "redis://:a%0Ab@flag:2?partitions=4", "unix://:pw@/run/redis.sock?db=2&partitions=4", "redis://[::1]:7?partitions=4",
		"rediss-sentinel://a:b@one,two:7/2?master=n&sentinel_username=x&sentinel_password=y&partitions=4", "redis-cluster://pw@one,two:7?partitions=16",
	} {
		want, err := client.ParseURL(url)
		redistest.Check(t, err)
		got := from(Options{Redis: url})
		if (got.TLS == nil) != (want.TLS == nil) {
			t.Errorf("%s: TLS %v, want %v", url, got.TLS, want.TLS)
		}
		got = client.PoolOptions{Addr: got.Addr, Sentinels: got.Sentinels, SentinelMaster: got.SentinelMaster, SentinelUsername: got.SentinelUsername, SentinelPassword: got.SentinelPassword, Cluster: got.Cluster,
			Username: got.Username, Password: got.Password, Database: got.Database, Partitions: got.Partitions}
		if want.TLS = nil; !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", url, got, want)
		}
	}
	os.Unsetenv("DELAYER_REDIS_SENTINELS")
	for name, o := range map[string]Options{"--redis: invalid redis URL: ": {Redis: "http://x"}, variables.RedisURL + ": invalid redis URL: ": {}} {
		t.Setenv(variables.RedisURL, "nonsense")
		if _, err := FindConfiguration(o); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}

// An error names the wrong key in the file.
func TestTLSConfigErrors(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	redistest.WriteCertificate(t, cert, key)
	missing, text := filepath.Join(dir, "missing.pem"), filepath.Join(dir, "text.pem")
	redistest.Check(t, os.WriteFile(text, []byte("no PEM"), 0o600))
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

// Messages say where Redis is.
func TestWhereRedisIs(t *testing.T) {
	sentinels, cluster := []string{"10.0.0.1:26379", "10.0.0.2:26379"}, []string{"10.0.0.1:6379", "10.0.0.2:6379"}
	for want, r := range map[string]config.Redis{
		"127.0.0.1:6379": {Host: "127.0.0.1", Port: 6379},
		"jobs, as sentinels 10.0.0.1:26379, 10.0.0.2:26379 say": {Host: "127.0.0.1", Port: 6379, Sentinels: sentinels, SentinelMaster: "jobs"},
		"cluster 10.0.0.1:6379, 10.0.0.2:6379":                  {Host: "127.0.0.1", Port: 6379, Cluster: cluster},
	} {
		if got := whereIs(r); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	t.Setenv("AppData", filepath.Join(dir, "config"))
	user, err := os.UserConfigDir()
	redistest.Check(t, err)
	executable, err := os.Executable()
	redistest.Check(t, err)
	want := []string{"delayer.conf", filepath.Join(filepath.Dir(executable), "delayer.conf"), filepath.Join(user, "delayer", "delayer.conf")}
	if runtime.GOOS != "windows" {
		want = append(want, "/etc/delayer/delayer.conf", "/etc/delayer.conf")
	}
	checkSearch := func(wantPath string) {
		t.Helper()
		if path, places := search(); path != wantPath || !reflect.DeepEqual(places, want) {
			t.Errorf("got %q, %q; want %q, %q", path, places, wantPath, want)
		}
	}
	checkSearch("")
	redistest.Check(t, os.MkdirAll(filepath.Dir(want[2]), 0o700))
	for _, path := range []string{want[2], want[0]} {
		redistest.Check(t, os.WriteFile(path, nil, 0o600))
		checkSearch(path)
	}
}
