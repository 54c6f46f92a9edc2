package docs

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/config"
)

// languages are the languages of samples. Tests of cmd/delayer run shell samples and start Redis with its configuration, tests of client and
// others use the redis samples, and tests of metrics those for Prometheus.
var languages = []string{"go", "sh", "console", "ini", "conf redis.conf", "conf sentinel.conf", "conf logrotate", "redis", "yaml", "json", "go.mod", "php", "python", "java", "ts", "text"}

// samplesOf returns a page's samples in a language, without those that are files of their own.
func samplesOf(t *testing.T, page, language string) (samples []string) {
	t.Helper()
	for _, s := range Samples(pages(t)[page]) {
		if s.Language == language && s.File == "" {
			samples = append(samples, s.Text)
		}
	}
	return samples
}

// TestSamplesNameTheirLanguage checks that tests can find each sample by its language.
func TestSamplesNameTheirLanguage(t *testing.T) {
	indented := regexp.MustCompile(`(?m)^\n {4}\S.*$`)
	for page, text := range pages(t) {
		for _, s := range Samples(text) {
			if !slices.Contains(languages, s.Language) {
				t.Errorf("%s:%d: a sample in %q, want one of %q", page, s.Line, s.Language, languages)
			}
		}
		if found := indented.FindString(fence.ReplaceAllString(text, "")); found != "" {
			t.Errorf("%s has an indented sample, which names no language: %s", page, found)
		}
	}
}

// imported are the packages that Go samples behind a page's first one may use without an import.
var imported = []string{"context", "errors", "fmt", "github.com/gomodule/redigo/redis", "github.com/mix-basic/delayer/client", "github.com/mix-basic/delayer/client/delayertest",
	"github.com/mix-basic/delayer/client/worker", "github.com/mix-basic/delayer/server", "log/slog", "net/http", "os", "testing", "time"}

// TestGoSamplesCompile compiles the first Go sample of each page exactly as printed, and with it the others, which continue it; samples that
// name their files are one program. It runs vet and, in the long form, staticcheck. The programs are written to a folder of this module, so that what they import is compiled once for all tests.
func TestGoSamplesCompile(t *testing.T) {
	folder, err := os.MkdirTemp("testdata", "samples-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	count := 0
	for page, text := range pages(t) {
		name := strings.NewReplacer("/", "_", ".", "_").Replace(page)
		for _, s := range Samples(text) {
			if s.Language == "go" && s.File != "" {
				write(t, filepath.Join(folder, name+"_files", s.File), s.Text)
			}
		}
		samples := samplesOf(t, page, "go")
		if len(samples) == 0 {
			continue
		}
		count += len(samples)
		write(t, filepath.Join(folder, name+"_first", "main.go"), samples[0])
		write(t, filepath.Join(folder, name, "main.go"), samples[0])
		rest, header := strings.Join(samples[1:], "\n"), "package main\n\nimport (\n"
		if rest == "" {
			continue
		}
		for _, path := range imported {
			if regexp.MustCompile(`\b` + filepath.Base(path) + `\.`).MatchString(rest) {
				header += fmt.Sprintf("\t%q\n", path)
			}
		}
		write(t, filepath.Join(folder, name, "rest.go"), header+")\n\n"+rest)
	}
	if count < 20 {
		t.Errorf("found %d Go samples", count)
	}
	if diff := output(t, folder, "gofmt", "-d", "."); diff != "" {
		t.Errorf("not as gofmt writes it:\n%s", diff)
	}
	output(t, folder, "go", "vet", "./...")
	if testing.Short() {
		return
	}
	root, err := filepath.Abs(project)
	must(t, err)
	staticcheck := output(t, root, "go", "tool", "-modfile=tools/go.mod", "-n", "staticcheck")
	output(t, folder, strings.TrimSpace(staticcheck), "-checks", "inherit,-U1000", "./...") // nobody calls a page's functions
}

func write(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, []byte(text), 0o644))
}

// output runs a command, which must succeed, and returns its standard output.
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

// TestConfigurationSamplesLoad loads every sample of delayer.conf.
func TestConfigurationSamplesLoad(t *testing.T) {
	count := 0
	for page := range pages(t) {
		for i, text := range samplesOf(t, page, "ini") {
			count++
			file := filepath.Join(t.TempDir(), fmt.Sprintf("%d.conf", i))
			write(t, file, text)
			if c, err := config.Load(file); err != nil || len(c.Warnings) > 0 {
				t.Errorf("%s: %v %v\n%s", page, err, c.Warnings, text)
			}
		}
	}
	if count < 10 {
		t.Errorf("found %d", count)
	}
}

// TestJSONSamplesParse checks that JSON samples are valid, apart from ellipses.
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
