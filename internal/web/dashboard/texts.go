package dashboard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

//go:embed texts.json
var textsJSON []byte

// texts are all there are, by key, in the order of languages.
var texts = func() (t map[string][]string) {
	if err := json.Unmarshal(textsJSON, &t); err != nil {
		panic(err) // the file is a part of this package
	}
	return t
}()

// language is a place in languages.
type language int

var languages = []string{"en", "zh"}

const (
	english language = iota
	chinese
)

// Lang is its name.
func (l language) Lang() string { return languages[l] }

// T is the text of that key, with its arguments.
func (l language) T(key string, args ...any) string {
	t, ok := texts[key]
	if !ok {
		return key
	}
	if len(args) == 0 {
		return t[l]
	}
	return fmt.Sprintf(t[l], args...)
}

// languageOf is the one that was chosen, or else what the browser prefers.
func languageOf(chosen, accepted string) language {
	if i := slices.Index(languages, chosen); i >= 0 {
		return language(i)
	}
	// Browsers name the language they like best first.
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(accepted)), "zh") {
		return chinese
	}
	return english
}
