package store

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A quoted name in a message is readable and bounded.
func TestQuote(t *testing.T) {
	for name, want := range map[string]string{
		"":                       `""`,
		"order-17":               `"order-17"`,
		"a\x00\n\xff":            `"a\x00\n\xff"`,
		strings.Repeat("a", 200): `"` + strings.Repeat("a", 200) + `"`,
		strings.Repeat("a", 201): `"` + strings.Repeat("a", 200) + `"… (201 bytes)`,
		strings.Repeat("鱼", 100): `"` + strings.Repeat("鱼", 66) + `?"… (300 bytes)`,
	} {
		if got := Quote(name); got != want {
			t.Errorf("%.20q…: %s, want %s", name, got, want)
		}
	}
	if got := Quote(strings.Repeat("\xff\x00", 256<<10)); len(got) > 4*maxQuoted+30 || !utf8.ValidString(got) {
		t.Errorf("%d bytes for 512 KiB", len(got))
	}
}
