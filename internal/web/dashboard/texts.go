package dashboard

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/mix-basic/delayer/internal/web"
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

func (l language) String() string { return languages[l] }

// text is the text of that key, with its arguments.
func (l language) text(key string, args ...any) string {
	t, ok := texts[key]
	if !ok {
		return key
	}
	if len(args) == 0 {
		return t[l]
	}
	return fmt.Sprintf(t[l], args...)
}

// languageOf is what the browser prefers, unless one was chosen.
func languageOf(r *http.Request) language {
	switch choice(r, "lang") {
	case "en":
		return english
	case "zh":
		return chinese
	}
	// Browsers name the language they like best first.
	first, _, _ := strings.Cut(r.Header.Get("Accept-Language"), ",")
	if strings.HasPrefix(strings.ToLower(strings.TrimSpace(first)), "zh") {
		return chinese
	}
	return english
}

// choice is what the user has chosen of that name, with this request or earlier.
func choice(r *http.Request, name string) string {
	if chosen := r.URL.Query().Get(name); chosen != "" {
		return chosen
	}
	if cookie, err := r.Cookie("delayer_" + name); err == nil {
		return cookie.Value
	}
	return ""
}

// keepChoice keeps for a year what the user chooses with this request, if it is one of these.
func keepChoice(w http.ResponseWriter, r *http.Request, name string, of ...string) {
	chosen := r.URL.Query().Get(name)
	for _, value := range of {
		if value == chosen {
			http.SetCookie(w, &http.Cookie{Name: "delayer_" + name, Value: value, Path: "/", MaxAge: 365 * 24 * 3600, Secure: web.Encrypted(r), HttpOnly: true, SameSite: http.SameSiteLaxMode})
		}
	}
}
