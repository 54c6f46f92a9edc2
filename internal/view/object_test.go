package view

import (
	"strings"
	"testing"
)

// What is read keeps its order and its numbers, and base64 becomes bytes.
func TestRead(t *testing.T) {
	const text = `{"z":1801383000123456,"a":[{"id_base64":"/w=="},[],{}],"m":{"rate":0.10,"late":null},"t":true,"s":"<ä>"}`
	o, err := Read([]byte(text))
	if err != nil || string(Encode(o)) != text+"\n" {
		t.Errorf("%s, %v", Encode(o), err)
	}
	list := o.Get("a").([]any)
	if id := list[0].(Object).TextOf("id"); id != "\xff" || o.TextOf("s") != "<ä>" || o.TextOf("t") != "" {
		t.Errorf("id %q in %v", id, o)
	}
	for _, wrong := range []string{"", "[]", "null", `"a"`, "{", `{"a":[}`, `{"a_base64":"!"}`, strings.Replace(text, "}", "]", 1)} {
		if o, err := Read([]byte(wrong)); err == nil {
			t.Errorf("%s: %v", wrong, o)
		}
	}
}

// A preview ends with a whole character; other texts are not cut.
func TestWholeCharacters(t *testing.T) {
	for text, want := range map[string]string{"": "", "a": "a", "aä": "aä", "a\xc3": "a", "€\xe2\x82": "€", "\xf0\x9f\x98": "", "\xff": "\xff", "a\x80\x80\x80\x80": "a\x80\x80\x80\x80"} {
		if got := wholeCharacters(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
