package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

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
