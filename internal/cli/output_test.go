package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain ü € 😀":        "plain ü € 😀",
		"a\tb\nc\n":          "a\tb\nc\n",
		"\x1b]0;title\x07":   `\u001b]0;title\u0007`,
		"\r\b\x7f\x00":       `\u000d\u0008\u007f\u0000`,
		"\u009b31m":          `\u009b31m`,
		"\x9b31m\xff":        `\x9b31m\xff`,
		`{"path":"C:\\new"}`: `{"path":"C:\\new"}`,
	} {
		if got := printable(text, "\n\t"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := printable("a\nb\tc", ""); got != `a\u000ab\u0009c` {
		t.Errorf("nothing is kept: %s", got)
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[31m\u009b\xff\x7f")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.ContainsFunc(printable(text, ""), unicode.IsControl) {
			t.Errorf("%q becomes %q", text, printable(text, ""))
		}
		line := jsonLine(view.Of("id", text))
		var before, after any
		if json.Unmarshal([]byte(line), &before) != nil || json.Unmarshal([]byte(printable(line, "\n\t")), &after) != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s becomes %s", line, printable(line, "\n\t"))
		}
	})
}

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
		{context.Background(), exit.With(2, errors.New("delay: want seconds")), 2, "ERROR: delay: want seconds\n"},
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

func TestMain(m *testing.M) {
	os.Setenv("LC_ALL", "C") // help is in English, however this machine is set
	os.Exit(m.Run())
}
