package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/config"
)

// languages are those of the documents' samples. cmd/delayer runs what is for a shell and starts Redis with what is for it.
// client/acl_test.go and its neighbours use the redis samples, the metrics' tests those of Prometheus.
var languages = []string{"go", "sh", "console", "ini", "conf redis.conf", "conf sentinel.conf", "conf logrotate", "redis", "yaml", "json", "go.mod", "php", "text"}

// samplesOf are the samples of a page in a language.
func samplesOf(t *testing.T, page, language string) (samples []string) {
	t.Helper()
	for _, s := range Samples(pages(t)[page]) {
		if s.Language == language {
			samples = append(samples, s.Text)
		}
	}
	return samples
}

// Every sample names its language, so that a test can find it.
func TestSamplesNameTheirLanguage(t *testing.T) {
	indented := regexp.MustCompile(`(?m)^\n {4}\S.*$`)
	for page, text := range pages(t) {
		for _, s := range Samples(text) {
			known := false
			for _, language := range languages {
				known = known || s.Language == language
			}
			if !known {
				t.Errorf("%s:%d: a sample in %q, want one of %q", page, s.Line, s.Language, languages)
			}
		}
		if found := indented.FindString(fence.ReplaceAllString(text, "")); found != "" {
			t.Errorf("%s has an indented sample, which names no language: %s", page, found)
		}
	}
}

// The Go samples of a page make up one program that compiles as printed, and in which neither vet nor staticcheck finds a mistake.
func TestGoSamplesCompile(t *testing.T) {
	root, err := filepath.Abs(project)
	if err != nil {
		t.Fatal(err)
	}
	module, count := newModule(t, root), 0
	for page := range pages(t) {
		samples := samplesOf(t, page, "go")
		if len(samples) == 0 {
			continue
		}
		count += len(samples)
		write(t, filepath.Join(module, strings.NewReplacer("/", "_", ".", "_").Replace(page), "main.go"), strings.Join(samples, "\n"))
	}
	if count < 20 {
		t.Errorf("found %d Go samples", count)
	}
	if diff := output(t, module, "gofmt", "-d", "."); diff != "" {
		t.Errorf("not as gofmt writes it:\n%s", diff)
	}
	output(t, module, "go", "vet", "./...")
	staticcheck := output(t, root, "go", "tool", "-modfile=tools/go.mod", "-n", "staticcheck")
	output(t, module, strings.TrimSpace(staticcheck), "-checks", "inherit,-U1000", "./...") // nobody calls a page's functions
}

// newModule makes a module that uses this project and the modules that it pins.
func newModule(t *testing.T, root string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?m)^module (\S+)$`).FindSubmatch(mod)
	own := strings.Replace(string(mod), string(name[0]), "module samples", 1)
	write(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("%s\nrequire %[2]s v0.0.0\nreplace %[2]s => %[3]q\n", own, name[1], root))
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "go.sum"), string(sum))
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// output is what a command that succeeds writes.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, &errors)
	}
	return string(out)
}

// Delayer takes every sample of its configuration.
func TestConfigurationSamplesLoad(t *testing.T) {
	count := 0
	for page := range pages(t) {
		for i, text := range samplesOf(t, page, "ini") {
			count++
			file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.conf", i))
			write(t, file, text)
			if _, notes, err := config.Load(file); err != nil || len(notes) > 0 {
				t.Errorf("%s: %v %v\n%s", page, err, notes, text)
			}
		}
	}
	if count < 10 {
		t.Errorf("found %d", count)
	}
}

// JSON samples are JSON, but for the ellipsis of what is left out.
func TestJSONSamplesParse(t *testing.T) {
	count := 0
	for page := range pages(t) {
		for _, text := range samplesOf(t, page, "json") {
			count++
			if !json.Valid([]byte(strings.ReplaceAll(text, ",…", ""))) {
				t.Errorf("%s: not JSON: %s", page, text)
			}
		}
	}
	if count < 4 {
		t.Errorf("found %d", count)
	}
}
