package store

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBounds(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{CheckSize("123", 3), "<nil>"},
		{CheckSize("1234", 3), "it has 4 bytes: want 3 at most"},
		{CheckScheduleName("a b-ä@\x80"), "<nil>"},
		{CheckScheduleName(strings.Repeat("n", 200)), "<nil>"},
		{CheckScheduleName(strings.Repeat("n", 201)), "it has 201 bytes: want 200 at most"},
		{CheckScheduleName(""), "it is empty"},
		{CheckScheduleName("{"), "want no braces and no control characters"},
		{CheckScheduleName("\x1f"), "want no braces and no control characters"},
		{CheckScheduleTopic("t"), "<nil>"},
		{CheckScheduleTopic(""), "it is empty"},
		{CheckScheduleTopic(ScheduleTopic), "it is that of schedules"},
		{CheckScheduleTopic(strings.Repeat("t", 1025)), "it has 1025 bytes: want 1024 at most"},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

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
