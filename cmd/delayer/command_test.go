package main

import (
	"os"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
)

// --check-config starts nothing and names what it has checked.
func TestCheckConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/delayer.conf", "[redis]\nport = 1\n")
	write(t, dir+"/other.conf", "[redis]\ntls = true\ntls_ca = other.conf\n")
	if r := runBinary(t, dir, environment(t), "--check-config"); r != (result{stdout: "delayer.conf: the configuration is good\n"}) {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]string{"other.conf": "ERROR: redis.tls_ca: ", "none.conf": "ERROR: configuration: open none.conf: "} {
		if r := runBinary(t, dir, environment(t), "--check-config", "-c", name); r.code != exit.Usage || r.stdout != "" || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := runBinary(t, t.TempDir(), environment(t), "--check-config"); r.code != exit.Usage || !strings.HasPrefix(r.stderr, "ERROR: no configuration file found") {
		t.Errorf("no file: %+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("made %v", left)
	}
}

// LC_ALL overrides LC_MESSAGES, which overrides LANG.
func TestHelpSpeaksTheLanguageOfTheEnvironment(t *testing.T) {
	help := func(variables string) string {
		return runBinary(t, t.TempDir(), environment(t, strings.Fields(variables)...), "help").stdout
	}
	english, chinese := help("LC_ALL=C"), help("LC_ALL=zh_CN.UTF-8")
	if !strings.Contains(english, "Exit codes") || !strings.Contains(chinese, "退出码") {
		t.Fatalf("%s\n%s", english, chinese)
	}
	for variables, want := range map[string]string{
		"": english, "LANG=zh_CN.UTF-8": chinese, "LANG=C LC_MESSAGES=zh_TW": chinese, "LANG=zh_CN LC_MESSAGES=de_DE": english,
		"LC_ALL=C LC_MESSAGES=zh_CN LANG=zh_CN": english, "LC_ALL= LANG=zh_CN": chinese,
	} {
		if got := help(variables); got != want {
			t.Errorf("%s: %s", variables, got)
		}
	}
}
