package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/client"
)

func TestExitCodesOfErrors(t *testing.T) {
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	_, refused := net.Dial("tcp", "127.0.0.1:1")
	for _, test := range []struct {
		ctx  context.Context
		err  error
		code int
		said string
	}{
		{context.Background(), nil, 0, ""},
		{context.Background(), fmt.Errorf("pop: %w", client.ErrEmpty), 1, "pop: "},
		{context.Background(), fmt.Errorf("get: %w", client.ErrNotFound), 1, "get: "},
		{context.Background(), fmt.Errorf("push: %w", client.ErrInvalid), 2, "ERROR: push: "},
		{context.Background(), errors.New("connection refused"), 3, "ERROR: connection refused\n"},
		{context.Background(), fmt.Errorf("count jobs: %w", refused), 3, "ERROR: cannot connect to Redis at 127.0.0.1:1: connection refused\n"},
		{context.Background(), fmt.Errorf("get %q: no master \"m\" is found: sentinel 127.0.0.1:1: %w; sentinel 127.0.0.1:2: EOF", "a", refused), 3, "ERROR: no master \"m\" is found: sentinel 127.0.0.1:1: connection refused; sentinel 127.0.0.1:2: EOF\n"},
		{context.Background(), errors.Join(fmt.Errorf("one: %w", refused), errors.New("another")), 3, "ERROR: one: dial tcp"},
		{context.Background(), fail(2, errors.New("delay: want seconds")), 2, "ERROR: delay: want seconds\n"},
		{context.Background(), context.DeadlineExceeded, 3, "ERROR: context deadline exceeded\n"},
		{interrupted, fmt.Errorf("bpop: %w", context.Canceled), 130, ""},
		{interrupted, errors.New("connection refused"), 3, "ERROR: connection refused\n"},
	} {
		var stderr strings.Builder
		code := report(withExitCode(test.ctx, test.err), &stderr)
		if code != test.code || !strings.HasPrefix(stderr.String(), test.said) || (test.said == "") != (stderr.String() == "") {
			t.Errorf("%v: exit code %d, %q", test.err, code, stderr.String())
		}
	}
}

// The documentation contains the table of exit codes from the help, in both languages.
func TestDocumentedExitCodes(t *testing.T) {
	for language, file := range map[string]string{"en": "configuration.md", "zh": "configuration.zh-CN.md"} {
		text := read(t, "../../docs/"+file)
		for _, e := range readWords(language).exitCodes(nil) {
			if want := fmt.Sprintf("\n| %d | %s |\n", e.code, e.meaning); !strings.Contains(text, want) {
				t.Errorf("%s has no row %q", file, want)
			}
		}
	}
}

// --check-config starts nothing and names what it has checked.
func TestCheckConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/delayer.conf", "[redis]\nport = 1\n")
	write(t, dir+"/other.conf", "[redis]\ntls = true\ntls_ca = other.conf\n")
	if r := runBinary(t, dir, environment(t), "--check-config"); r != (result{stdout: "delayer.conf: the configuration is good\n"}) {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]string{"other.conf": "ERROR: redis.tls_ca: ", "none.conf": "ERROR: configuration: open none.conf: "} {
		if r := runBinary(t, dir, environment(t), "--check-config", "-c", name); r.code != exitUsage || r.stdout != "" || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := runBinary(t, t.TempDir(), environment(t), "--check-config"); r.code != exitUsage || !strings.HasPrefix(r.stderr, "ERROR: no configuration file found") {
		t.Errorf("no file: %+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("made %v", left)
	}
}
