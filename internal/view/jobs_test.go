package view

import "testing"

// A preview ends with a whole character; other texts are not cut.
func TestWholeCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "aä": "aä", "a\xc3": "a", "€\xe2\x82": "€", "\xf0\x9f\x98": "", "\xff": "\xff", "a\x80\x80\x80\x80": "a\x80\x80\x80\x80"} {
		if got := wholeCharacters(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
