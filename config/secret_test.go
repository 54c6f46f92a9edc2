package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

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
