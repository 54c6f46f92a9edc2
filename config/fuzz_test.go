package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"gopkg.in/ini.v1"
)

var problemLine = regexp.MustCompile(`^(f:[1-9][0-9]*: |f: is UTF-16|f: warning: sets nothing)`)

var twoBrackets = regexp.MustCompile(`\].*\]`)

// FuzzLoad checks that any file either yields problems, each on one line with its line number, or a
// valid configuration that the original's ini.v1 reads the same way.
func FuzzLoad(f *testing.F) {
	shipped, err := os.ReadFile("../delayer.conf")
	must(f, err)
	f.Add(string(shipped))
	for _, seed := range []string{"[redis]\npassword = \"a#b\" ; c", "[redis]\nhost: `x`\nport = 010", "a = b", "[redis\n\"host\"=x", "[reddis]\nport = 1\n[redis]\nhost =\nmax_idle = 30\nmax_active = -1\nport = 1;x\nport=2", "[mysql]\nx", "[redis]\npassword = 'a' # '\ntls = true\ntls_ca = C:\\x\\",
		"[http]\nlisten = [::1]:0\ntoken = 0123456789abcdef\nusers = a:12345678, b:c:#345678\nhosts = a,[::1]\ninsecure = true", "[http]\nlisten = :1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		config, warnings, err := load(text)
		problems := warnings
		errors.As(err, &problems)
		for _, p := range problems {
			if !problemLine.MatchString(p) || strings.ContainsFunc(p, unicode.IsControl) {
				t.Errorf("problem %q: want f:LINE: and no control character", p)
			}
		}
		if err == nil {
			checkValid(t, config)
			checkLikeTheOriginal(t, text, config, warnings)
		}
	})
}

func checkValid(t *testing.T, c Config) {
	t.Helper()
	r, d, h := c.Redis, c.Delayer, c.HTTP
	valid := r.Port >= 1 && r.Port <= 65535 && r.Database >= 0 && r.MaxIdle >= 0 && r.MaxActive >= 0 &&
		(r.MaxActive == 0 || r.MaxIdle <= r.MaxActive) && r.IdleTimeout >= 0 && r.ConnMaxLifetime >= 0 &&
		r.ConnectTimeout > 0 && r.ReadTimeout > 0 && r.WriteTimeout > 0 && r.Host != "" && r.Prefix != "" &&
		d.TimerInterval > 0 && (d.LogFormat == "text" || d.LogFormat == "json") &&
		(r.TLS || r.TLSCA+r.TLSCert+r.TLSKey == "" && !r.TLSSkipVerify) && (r.TLSCert == "") == (r.TLSKey == "") &&
		(r.Username == "" || r.Password != "") &&
		(h.Listen == "" || h.Insecure || h.Token+fmt.Sprint(h.Users) != "[]" || isLoopback(h.Listen)) &&
		(h.Token == "" || len(h.Token) >= 16) && (h.TLSCert == "") == (h.TLSKey == "") && h.MaxBody >= 1024 &&
		h.PollTimeout > 0 && h.TopicLabels >= 0 && h.ReadyMaxLate >= 0
	if !valid {
		t.Errorf("accepted: %+v", c)
	}
}

// checkLikeTheOriginal compares with the original, except where Delayer differs by design: quotes with
// escapes, a \ at the end of a line, references, a ] in a comment after a section, and empty values that are
// not allowed.
func checkLikeTheOriginal(t *testing.T, text string, c Config, warnings Problems) {
	t.Helper()
	if strings.ContainsAny(text, "\"\\%`") || twoBrackets.MatchString(text) {
		return
	}
	file, err := ini.Load([]byte(text))
	if err != nil {
		if len(warnings) == 0 {
			t.Errorf("accepted, but not by ini.Load: %v", err)
		}
		return
	}
	theirs := Default()
	for _, k := range theirs.keys() {
		if !file.Section(k.section).HasKey(k.name) {
			continue
		}
		value := file.Section(k.section).Key(k.name).String()
		if err := k.set(value); err != nil && value == "" && len(warnings) > 0 {
			k.set(k.standard)
		} else if err != nil {
			t.Errorf("%s is accepted, but not as ini.Load reads it: %v", k, err)
		}
	}
	if theirs.Redis.MaxActive > 0 {
		theirs.Redis.MaxIdle = min(theirs.Redis.MaxIdle, theirs.Redis.MaxActive)
	}
	if !equal(theirs, c) {
		t.Errorf("read as %+v\nini.Load reads %+v", c, theirs)
	}
}

// FuzzQuoted checks that every password can be written as delayer.conf describes: in double quotes with \"
// for a quote, or in backticks.
func FuzzQuoted(f *testing.F) {
	for _, seed := range []string{"", "a#b;c", `"`, `a"b#`, `\"`, `\`, "`", " x ", "%(port)s", `""`, "'", `C:\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, password string) {
		if strings.ContainsFunc(password, unicode.IsControl) || !utf8.ValidString(password) {
			return
		}
		change := func(c *Config) { c.Redis.Password = password }
		if !strings.HasSuffix(password, `\`) {
			wantChanged(t, change, "[redis]\npassword = \""+strings.ReplaceAll(password, `"`, `\"`)+"\" ; \"c\"")
		}
		if !strings.Contains(password, "`") {
			wantChanged(t, change, "[redis]\npassword: `"+password+"`; `c`")
		}
	})
}
