package dashboard

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/web"
)

// TestTexts checks that each text exists in all languages and takes the same arguments.
func TestTexts(t *testing.T) {
	verbs := regexp.MustCompile(`%[a-z]`)
	for key, text := range texts {
		if len(text) != len(languages) || slices.Contains(text, "") {
			t.Errorf("%s: %q is not %d texts", key, text, len(languages))
			continue
		}
		for _, other := range text[1:] {
			if !slices.Equal(verbs.FindAllString(text[0], -1), verbs.FindAllString(other, -1)) {
				t.Errorf("%s: %q and %q take different arguments", key, text[0], other)
			}
		}
	}
}

// TestTextsAreUsed checks that each key used has a text, and that each text is used.
func TestTextsAreUsed(t *testing.T) {
	named := regexp.MustCompile(`(?:T|text|line) ?\(?"([a-z_0-9.]+[a-z_0-9])"|&wrong\{"([a-z_0-9.]+[a-z_0-9])"|"(problem\.[a-z_]+)"|"(unit\.[a-z]+)"`)
	built := regexp.MustCompile(`print "([a-z.]+)"|"(done\.|wrong\.)"`)
	used, prefixes := map[string]bool{}, []string{}
	for _, source := range sources(t, "*.go", "templates/*.html", "templates/common/*.html") {
		for _, match := range named.FindAllStringSubmatch(source, -1) {
			used[strings.Join(match[1:], "")] = true
		}
		for _, match := range built.FindAllStringSubmatch(source, -1) {
			prefixes = append(prefixes, strings.Join(match[1:], ""))
		}
	}
	for key := range used {
		if _, ok := texts[key]; !ok {
			t.Errorf("there is no text %s", key)
		}
	}
	for key := range texts {
		isBuilt := slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
		if !used[key] && !isBuilt && !used[strings.TrimSuffix(key, ".help")] {
			t.Errorf("nothing uses %s", key)
		}
	}
}

// sources returns the files that are not tests.
func sources(t *testing.T, patterns ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v, %v", pattern, names, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			check(t, err)
			found[name] = string(text)
		}
	}
	return found
}

// TestLanguage tries all ways to choose a language.
func TestLanguage(t *testing.T) {
	f := start(t, web.Options{})
	for _, c := range []struct{ name, path, accept, cookie, want string }{
		{"none", "/ui/push", "", "", "en"},
		{"browser", "/ui/push", "zh-CN,zh;q=0.9,en;q=0.8", "", "zh"},
		{"browser, another one", "/ui/push", "fr,zh;q=0.5", "", "en"},
		{"cookie", "/ui/push", "en", "delayer_lang=zh", "zh"},
		{"query", "/ui/push?lang=en", "zh", "delayer_lang=zh", "en"},
		{"unknown", "/ui/push?lang=xx", "zh", "", "zh"},
	} {
		got := f.get(c.path, "Accept-Language", c.accept, "Cookie", c.cookie)
		got.has(t, c.name, http.StatusOK, `<html lang="`+c.want+`"`)
		if kept := got.header.Get("Set-Cookie"); strings.HasPrefix(kept, "delayer_lang="+c.want) != strings.HasSuffix(c.path, "lang=en") {
			t.Errorf("%s: cookie %q", c.name, kept)
		}
	}
	f.get("/ui/push?theme=dark").has(t, "theme", http.StatusOK, `data-theme="dark"`)
	if got := f.get("/ui/push", "Cookie", "delayer_theme=\"><script>"); strings.Contains(got.body, "data-theme") {
		t.Error("a theme that is none is used")
	}
}
