package exit

import "testing"

// One line shows the beginning and the end of an error of several lines.
func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", " a\n": "a", "a\nb": "a … b", "a \r\nb\n\n  c \n": "a … c",
	} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
