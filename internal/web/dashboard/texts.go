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

// texts maps keys to texts in the order of languages.
var texts = func() (t map[string][]string) {
	if err := json.Unmarshal(textsJSON, &t); err != nil {
		panic(err) // the file is embedded
	}
	return t
}()

// language is an index of languages.
type language int

var languages = []string{"en", "zh"}

const (
	english language = iota
	chinese
)

func (l language) Lang() string { return languages[l] }

// T returns the text for a key with its arguments, as far as the text takes any.
func (l language) T(key string, args ...any) string {
	t, ok := texts[key]
	switch {
	case !ok:
		return key
	case len(args) == 0 || !strings.Contains(t[l], "%"):
		return t[l]
	}
	return fmt.Sprintf(t[l], args...)
}

// done reports an action on n subjects; "" if there is no such action.
func (l language) done(action string, n int) string {
	key := "done." + action
	if _, ok := texts[key]; !ok {
		return ""
	}
	return l.T(key, number(n))
}

// languageOf returns the chosen language, or the one that the browser prefers.
func languageOf(chosen, accepted string) language {
	if i := slices.Index(languages, chosen); i >= 0 {
		return language(i)
	}
	// Browsers list the preferred language first.
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(accepted)), "zh") {
		return chinese
	}
	return english
}
