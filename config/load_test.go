package config

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

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var must = redistest.Check

func TestMain(m *testing.M) {
	for _, variable := range os.Environ() { // the user's environment may configure a Redis
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(strings.ToUpper(name), "DELAYER_") {
			os.Unsetenv(name)
		}
	}
	os.Exit(m.Run())
}

// loadText loads a file with the given text and environment variables. Warnings count as errors.
func loadText(text string, environ ...string) (Config, error) {
	c, warnings, err := load(text, environ...)
	if err == nil && len(warnings) > 0 {
		err = warnings
	}
	return c, err
}

func load(text string, environ ...string) (Config, Problems, error) {
	l := newLoader()
	l.file("f", []byte(text))
	return l.result(environ)
}

func problems(text string, environ ...string) error {
	_, err := loadText(text, environ...)
	return err
}

// messages splits err into problems.
func messages(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}

// wantMessages checks the problems and that none reveals a secret: every secret contains s3.
func wantMessages(t *testing.T, err error, want ...string) {
	t.Helper()
	got := messages(err)
	if !slices.Equal(got, want) || strings.Contains(strings.Join(got, ""), "s3") {
		t.Errorf("problems:\n  %s\nwant:\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func equal(a, b Config) bool { return reflect.DeepEqual(a, b) }

// changed returns the default configuration with one change.
func changed(change func(*Config)) Config {
	c := Default()
	change(&c)
	return c
}

// wantChanged checks that the text loads without warnings as the changed default configuration.
func wantChanged(t *testing.T, change func(*Config), text string, environ ...string) {
	t.Helper()
	want := changed(change)
	if got, err := loadText(text, environ...); err != nil || !equal(got, want) {
		t.Errorf("%.100q, %.100q: %v\n got %+v\nwant %+v", text, environ, err, got, want)
	}
}

func none(*Config) {}

// everyKey sets every key to something else than its default.
const everyKey = `
[delayer]
pid = /run/d.pid
timer_interval = 250
access_log = /var/log/a.log
error_log = /var/log/e.log
log_format = json
dead_max_age = 3600
dead_max = 7
[redis]
host = redis.example.com
port = 6380
database = 3
username = queue
password = s3cret
prefix = shop:
partitions = 4
max_idle = 5
max_active = 0
idle_timeout = 60
conn_max_lifetime = 0
connect_timeout = 100
read_timeout = 200
write_timeout = 300
tls = true
tls_ca = /etc/ca.pem
tls_cert = /etc/cert.pem
tls_key = /etc/key.pem
tls_skip_verify = true
[http]
listen = :0
token = 0123456789abcdef
users = alice:correct horse, bob:p:a=ssword
tls_cert = /etc/http.crt
tls_key = /etc/http.key
read_only = true
insecure = true
hosts = Jobs.example.com, [fd00::1]
max_body = 2048
queue_block_timeout = 3600
metrics_topics = 0
ready_max_late = 0
`

func TestLoadReadsEveryKey(t *testing.T) {
	got, err := loadText(everyKey)
	want := Config{
		Delayer: Delayer{
			PID: absolute("/run/d.pid"), TimerInterval: 250 * time.Millisecond, AccessLog: absolute("/var/log/a.log"), ErrorLog: absolute("/var/log/e.log"),
			LogFormat: "json", DeadMaxAge: time.Hour, DeadMax: 7,
		},
		Redis: Redis{
			Host: "redis.example.com", Port: 6380, Database: 3, Username: "queue", Password: "s3cret", Prefix: "shop:", Partitions: 4,
			MaxIdle: 5, IdleTimeout: time.Minute,
			ConnectTimeout: 100 * time.Millisecond, ReadTimeout: 200 * time.Millisecond, WriteTimeout: 300 * time.Millisecond,
			TLS: true, TLSCA: absolute("/etc/ca.pem"), TLSCert: absolute("/etc/cert.pem"), TLSKey: absolute("/etc/key.pem"), TLSSkipVerify: true,
		},
		HTTP: HTTP{
			Listen: ":0", Token: "0123456789abcdef", Users: []User{{"alice", "correct horse"}, {"bob", "p:a=ssword"}},
			TLSCert: absolute("/etc/http.crt"), TLSKey: absolute("/etc/http.key"), ReadOnly: true, Insecure: true,
			Hosts: []string{"Jobs.example.com", "fd00::1"}, MaxBody: 2048, PollTimeout: time.Hour,
		},
	}
	if err != nil || !equal(got, want) {
		t.Errorf("got %+v, %v\nwant %+v", got, err, want)
	}
}

func TestLoadTakesDefaultsForWhatIsLeftOut(t *testing.T) {
	for _, text := range []string{"", "\n\n", "; nothing\n# at all", "[delayer]\n[redis]", "\ufeff[redis]"} {
		got, warnings, err := load(text)
		if err != nil || !equal(got, Default()) || warnings.Error() != "f: warning: sets nothing: every key has its default" {
			t.Errorf("%q: got %+v, %v, %v; want the defaults and a warning", text, got, warnings, err)
		}
	}
}

// One warning is enough. There is no warning if the environment sets the keys.
func TestLoadSaysOnceThatNothingIsSet(t *testing.T) {
	wantMessages(t, problems("[redis]\nprot = 1"), "f:2: warning: redis.prot: unknown key, did you mean port?")
	wantMessages(t, problems("", "DELAYER_REDIS_HOST=h"))
}

func TestLoadReadsTheOriginalsFile(t *testing.T) {
	const original = `[delayer]
pid = /var/run/delayer.pid      ; 需单例执行时配置, 多实例执行时留空, Win不支持单例
timer_interval = 1000           ; 计算间隔时间, 单位毫秒
access_log = logs/access.log    ; 存取日志
error_log = logs/error.log      ; 错误日志

[redis]
host = 127.0.0.1                ; 连接地址
port = 6379                     ; 连接端口
database = 0                    ; 数据库编号
password =                      ; 密码, 无需密码留空
max_idle = 2                    ; 最大空闲连接数
max_active = 20                 ; 最大激活连接数
idle_timeout = 3600             ; 空闲连接超时时间, 单位秒
conn_max_lifetime = 3600        ; 连接最大生存时间, 单位秒
`
	gbk := strings.ReplaceAll(original, "密码", "\xc3\xdc\xc2\xeb")
	for name, text := range map[string]string{
		"as it is":        original,
		"CRLF":            strings.ReplaceAll(original, "\n", "\r\n"),
		"byte order mark": "\ufeff" + original,
		"GBK comments":    gbk,
	} {
		t.Run(name, func(t *testing.T) { wantChanged(t, none, text) })
	}
}

func TestLoadChecksKeysTogether(t *testing.T) {
	const needsTLS = "needs tls = true"
	for text, want := range map[string][]string{
		"tls_ca = a":                             {"f:2: redis.tls_ca: " + needsTLS},
		"tls_skip_verify = true":                 {"f:2: redis.tls_skip_verify: " + needsTLS},
		"tls = false\ntls_cert = a\ntls_key = b": {"f:3: redis.tls_cert: " + needsTLS, "f:4: redis.tls_key: " + needsTLS},
		"tls = true\ntls_cert = a":               {"f:3: redis.tls_cert: needs tls_key as well"},
		"sentinels = h":                          {"f:2: redis.sentinels: needs sentinel_master as well"},
		"sentinel_master = m":                    {"f:2: redis.sentinel_master: needs sentinels as well"},
		"sentinel_password = s3cret":             {"f:2: redis.sentinel_password: needs sentinels as well"},
		"sentinels = h, [::1]:7\nsentinel_master = m\nsentinel_username = u": {"f:4: redis.sentinel_username: needs a sentinel_password as well"},
		"sentinels = h\nsentinel_master = m\nhost = /run/redis.sock":         {"f:4: redis.host: is a unix socket, but sentinels is set: keep one of the two"},
		"cluster = h, [::1]:7":                                           {"f:2: redis.cluster: needs partitions, for example 16, the same in all programs, so that the keys of each are in one slot; or a prefix with a tag, such as {delayer}:"},
		"cluster = h\npartitions = 16\ndatabase = 1":                     {"f:4: redis.database: must be 0 in a cluster"},
		"cluster = h:x\npartitions = 16":                                 {"f:2: redis.cluster: want host:port of some nodes, separated by commas"},
		"cluster = h\nprefix = {d}:\nhost = /run/redis.sock":             {"f:4: redis.host: is a unix socket, but cluster is set: keep one of the two"},
		"cluster = h\nprefix = {d}:\nsentinels = h\nsentinel_master = m": {"f:2: redis.cluster: can't be combined with sentinels: keep one of the two"},
		"sentinels = h:0\nsentinel_master = m":                           {"f:2: redis.sentinels: want host:port of each sentinel, separated by commas"},
		"sentinels = h\nsentinel_master = my master":                     {"f:3: redis.sentinel_master: want the name that the sentinels know the master by: letters, digits, and . - _"},
		"tls = true\ntls_key = a":                                        {"f:3: redis.tls_key: needs tls_cert as well"},
		"partitions = 16\nprefix = {shop}:":                              {"f:3: redis.prefix: has braces, which several partitions add themselves: remove them, or set partitions = 1"},
		"partitions = 1\nprefix = {shop}:":                               nil,
		"username = a":                                                   {"f:2: redis.username: needs a password as well"},
		"max_active = 0\nmax_idle = 99":                                  nil,
		"max_active = 5\nmax_idle = 5":                                   nil,
		"tls = true\ntls_ca = a\ntls_skip_verify=true":                   nil,
		"tls = false\ntls_ca =\ntls_skip_verify=false":                   nil,
		// A consequence of another problem is not reported.
		"tsl = true\ntls_ca = a":            {`f:2: redis.tsl: unknown key, did you mean tls?`},
		"tls = on\ntls_ca = a":              {`f:2: redis.tls: want true or false`},
		"username = a\npasword = b":         {"f:3: warning: redis.pasword: unknown key, did you mean password?", "f:2: redis.username: needs a password as well"},
		"username = a\npassword = s3#x":     {"f:3: redis.password: the # starts a comment: put the value in double quotes, or a space on both sides of the #"},
		"max_idle = 21\nmax_active = 0x100": {"f:3: redis.max_active: want a whole number from -1 to 2147483647, in decimal digits without leading zeros"},
	} {
		wantMessages(t, problems("[redis]\n"+text), want...)
	}
}

func TestPathsAreAbsolute(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	dir, err := os.Getwd() // the temporary directory of a Mac is a symlink
	must(t, err)
	if want := filepath.Join(dir, "logs", "access.log"); Default().Delayer.AccessLog != want {
		t.Errorf("default access log %s, want %s", Default().Delayer.AccessLog, want)
	}
	wantChanged(t, func(c *Config) {
		c.Delayer.PID, c.Delayer.AccessLog, c.Delayer.ErrorLog = filepath.Join(dir, "d.pid"), filepath.Join(dir, "..", "a"), ""
		c.Redis.Host, c.Redis.TLS, c.Redis.TLSCA = filepath.Join(dir, "r.sock"), true, filepath.Join(dir, "ca")
		c.Redis.TLSCert, c.Redis.TLSKey = filepath.Join(dir, "c"), filepath.Join(dir, "k")
	}, "[delayer]\npid = d.pid\naccess_log = ../a\nerror_log =\n[redis]\nhost = ./r.sock\ntls=true\ntls_ca=ca\ntls_cert=c\ntls_key=k")
}

func TestHostsThatAreFine(t *testing.T) {
	for _, host := range []string{"localhost", "redis.example.com", "10.0.0.1", "::1", "fe80::1%eth0", "/run/redis.sock", "@abstract", "my_redis-1"} {
		wantChanged(t, func(c *Config) { c.Redis.Host = host }, "[redis]\nhost = "+host)
	}
}

func TestLoadFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write := func(name, text string) {
		must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write("good.conf", "[redis]\nport = 7")
	write("utf16.conf", "\xff\xfe[\x00r\x00]\x00")

	got, err := Load("good.conf")
	if want := changed(func(c *Config) { c.Redis.Port = 7 }); err != nil || !equal(got.Config, want) {
		t.Errorf("good.conf: got %+v, %v", got, err)
	}
	_, err = Load("utf16.conf")
	wantMessages(t, err, "utf16.conf: is not UTF-8 text: save it as UTF-8")
	if _, err := Load("missing.conf"); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "configuration: open missing.conf") {
		t.Errorf("%v; want one that is fs.ErrNotExist", err)
	}
}

// secretFile writes a file and returns its path.
func secretFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// A secret is its file's content without one trailing line break; users are separated by line breaks or
// commas.
func TestSecretFiles(t *testing.T) {
	for content, want := range map[string]string{
		"s3cret": "s3cret", "s3cret\n": "s3cret", "s3cret\r\n": "s3cret", "\ufeffs3cret\r\n": "s3cret", " s3#;\"cret ": " s3#;\"cret ", strings.Repeat("x", maxSecret): strings.Repeat("x", maxSecret),
	} {
		path := secretFile(t, content)
		inFile := func(c *Config) { c.Redis.Password, c.Redis.PasswordFile = want, path }
		wantChanged(t, inFile, "[redis]\npassword_file = "+path)
		wantChanged(t, inFile, "[redis]\npassword =", "DELAYER_REDIS_PASSWORD_FILE="+path)
	}
	token, users := secretFile(t, goodToken+"\n"), secretFile(t, "alice:correct horse\r\nbob:s3cretpass, carol:s3cretpass\n")
	wantChanged(t, func(c *Config) {
		c.HTTP.Listen, c.HTTP.Token, c.HTTP.TokenFile = ":1", goodToken, token
		c.HTTP.Users, c.HTTP.UsersFile = []User{{"alice", "correct horse"}, {"bob", "s3cretpass"}, {"carol", "s3cretpass"}}, users
		c.HTTP.TLSCert, c.HTTP.TLSKey = absolute("c"), absolute("k")
	}, "[http]\nlisten = :1\ntls_cert = c\ntls_key = k\ntoken_file = "+token+"\nusers_file = "+users)
}

func TestSecretFilesAreRefused(t *testing.T) {
	missing, dir := filepath.Join(t.TempDir(), "missing"), t.TempDir()
	notFound := "no such file or directory"
	if runtime.GOOS == "windows" {
		notFound = "The system cannot find the file specified."
	}
	stat := map[bool]string{true: "CreateFile ", false: "stat "}[runtime.GOOS == "windows"]
	empty, onlyBreak, large := secretFile(t, ""), secretFile(t, "\r\n"), secretFile(t, strings.Repeat("x", maxSecret+1))
	good, twoLines, short := secretFile(t, "s3cret"), secretFile(t, "s3cret\n\n"), secretFile(t, "s3cret")
	const control = "has a line break, a tab, another control character, or bytes that are not UTF-8: remove them"
	for text, want := range map[string]string{
		"[redis]\npassword_file = " + missing:                     "f:2: redis.password_file: " + stat + missing + ": " + notFound,
		"[redis]\npassword_file = " + dir:                         "f:2: redis.password_file: " + dir + ": want a regular file",
		"[redis]\npassword_file = " + empty:                       "f:2: redis.password_file: " + empty + ": the file is empty",
		"[http]\ntoken_file = " + onlyBreak:                       "f:2: http.token_file: " + onlyBreak + ": the file is empty",
		"[redis]\npassword_file = " + large:                       "f:2: redis.password_file: " + large + ": want at most 64 KiB",
		"[redis]\npassword_file = " + twoLines:                    "f:2: redis.password_file: " + control,
		"[http]\ntoken_file = " + short:                           "f:2: http.token_file: " + tokenWanted,
		"[http]\nusers_file = " + short:                           "f:2: http.users_file: " + usersWanted,
		"[redis]\npassword = s3cret\npassword_file = " + good:     "f:3: redis.password_file: can't be combined with password: keep one of the two",
		"[http]\ntoken_file = " + good + "\ntoken = " + goodToken: "f:2: http.token_file: can't be combined with token: keep one of the two",
		"[redis]\nusername = u\npassword_file =":                  "f:2: redis.username: needs a password as well",
	} {
		wantMessages(t, problems(text), want)
	}
	wantMessages(t, problems("", "DELAYER_REDIS_PASSWORD=s3cret", "DELAYER_REDIS_PASSWORD_FILE="+good), "DELAYER_REDIS_PASSWORD_FILE: can't be combined with password: keep one of the two")
	if os.Geteuid() > 0 {
		os.Chmod(good, 0)
		wantMessages(t, problems("[redis]\npassword_file = "+good), "f:2: redis.password_file: open "+good+": permission denied")
	}
}

// The environment overrides the file, in whichever form either sets the value.
func TestEnvironmentOverridesSecrets(t *testing.T) {
	path := secretFile(t, "s3cret-of-file")
	for _, test := range []struct {
		text, variable, password, file string
	}{
		{"password = s3cret", "DELAYER_REDIS_PASSWORD_FILE=" + path, "s3cret-of-file", path},
		{"password_file = " + path, "DELAYER_REDIS_PASSWORD=s3cret", "s3cret", ""},
		{"password_file = " + path, "DELAYER_REDIS_PASSWORD=", "", ""},
		{"password_file = /nowhere", "DELAYER_REDIS_PASSWORD=s3cret", "s3cret", ""},
		{"password_file = /nowhere", "DELAYER_REDIS_PASSWORD_FILE=" + path, "s3cret-of-file", path},
		{"password = s3cret", "DELAYER_REDIS_PASSWORD_FILE=", "s3cret", ""},
		{"password_file = " + path, "DELAYER_REDIS_PASSWORD_FILE=", "", ""},
	} {
		wantChanged(t, func(c *Config) { c.Redis.Password, c.Redis.PasswordFile = test.password, test.file }, "[redis]\n"+test.text, test.variable)
	}
}
