package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/web/api"
	_ "github.com/oapi-codegen/runtime"
	"go.yaml.in/yaml/v3"
)

// A Go client generated from the description makes all calls in the documentation.
func TestGoClient(t *testing.T) {
	folder := t.TempDir()
	generated, overlay, calls := filepath.Join(folder, "client.go"), filepath.Join(folder, "overlay.json"), filepath.Join(folder, "calls")
	version := pinned(t, "go.mod", `github\.com/oapi-codegen/oapi-codegen/v2 (v\S+)`)
	args := documented(t, "go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@"+version, "-package delayer", "-package main", "delayer.go", generated)
	command(t, ".", "go", append([]string{"tool", "oapi-codegen"}, args...)...)
	at, err := filepath.Abs("testdata/golang/client.go")
	check(t, err)
	write(t, overlay, map[string]any{"Replace": map[string]string{at: generated}})
	command(t, ".", "go", "build", "-overlay", overlay, "-o", calls, "./testdata/golang")
	makesCalls(t, calls)
}

// A TypeScript client, with strict types, makes them, too. So do the programs of docs/languages.md.
func TestTypeScriptClient(t *testing.T) {
	if os.Getenv("NPM") != "needed" {
		t.Skip("make e2e runs it: it needs npm")
	}
	folder := t.TempDir()
	check(t, os.CopyFS(folder, os.DirFS("testdata/typescript")))
	version := pinned(t, "testdata/typescript/package.json", `"openapi-typescript": "(.*)"`)
	args := documented(t, "npx openapi-typescript@"+version)
	command(t, folder, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	command(t, folder, "node_modules/.bin/openapi-typescript", args...)
	command(t, folder, "node_modules/.bin/tsc")
	makesCalls(t, "node", filepath.Join(folder, "out", "calls.js"))
	runsTypeScriptSamples(t, folder)
}

// pinned returns the version pinned in a file of this folder.
func pinned(t *testing.T, file, pattern string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	found := regexp.MustCompile(pattern).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	return string(found[1])
}

// documented returns the arguments of the documented command that generates a client. Both pages show the same command. The
// description is read from a running server, with the given changes (old, new, …).
func documented(t *testing.T, command string, changes ...string) (args []string) {
	t.Helper()
	p := newProber(t)
	site := httptest.NewServer(p.usual())
	t.Cleanup(site.Close)
	changes = append(changes, "http://localhost:9277", site.URL)
	for _, page := range []string{"http.md", "http.zh-CN.md"} {
		text, err := os.ReadFile("../../../../docs/" + page)
		check(t, err)
		_, line, ok := strings.Cut(string(text), "\n$ "+command+" ")
		if !ok {
			t.Fatalf("docs/%s does not have the command %s", page, command)
		}
		line, _, _ = strings.Cut(line, "\n")
		line, _, _ = strings.Cut(line, " #")
		args = strings.Fields(strings.NewReplacer(changes...).Replace(line))
	}
	return args
}

// command runs a command in the given folder.
func command(t *testing.T, folder, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir = folder
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

func write(t *testing.T, path string, content any) {
	t.Helper()
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	check(t, err)
}

// makesCalls runs a program with the server's URL. All its calls must succeed and include the
// documented ones.
func makesCalls(t *testing.T, name string, args ...string) {
	t.Helper()
	var mu sync.Mutex
	var made []string
	p := newProber(t)
	front := p.usual()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		mu.Lock()
		made = append(made, call(t, r.Method, r.URL.String(), r.Header.Get(api.IdempotencyKey), string(body)))
		mu.Unlock()
		front.ServeHTTP(w, r)
	}))
	defer site.Close()
	command(t, ".", name, append(args, site.URL)...)
	for _, page := range []string{"http.md", "http.zh-CN.md"} {
		documented := documentedCalls(t, page)
		if len(documented) < 12 {
			t.Errorf("%s has only the calls %q", page, documented)
		}
		for _, call := range documented {
			if !slices.Contains(made, call) {
				t.Errorf("%s has %s, which was not made; made were:\n%s", page, call, strings.Join(made, "\n"))
			}
		}
	}
}

// call formats a call, so that equivalent calls are equal.
func call(t *testing.T, method, at, key, body string) string {
	t.Helper()
	where, err := url.Parse(at)
	check(t, err)
	text := method + " " + where.Path + "?" + where.Query().Encode() + " " + key
	if body == "" {
		return text
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatalf("%s: %v: %s", text, err, body)
	}
	if fields["token"] != nil {
		fields["token"] = "*"
	}
	return fmt.Sprint(text, " ", fields)
}

// documentedCalls returns the documented curl calls of the API.
func documentedCalls(t *testing.T, page string) (calls []string) {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/" + page)
	check(t, err)
	word := regexp.MustCompile(`'[^']*'|[^\s']+`)
	for _, line := range regexp.MustCompile(`(?m)^ *\$ curl (.*/v1/.*)$`).FindAllStringSubmatch(string(text), -1) {
		method, key, body := "", "", ""
		words := word.FindAllString(line[1], -1)
		for i := 0; i < len(words); i++ {
			switch w := strings.Trim(words[i], "'"); {
			case w == "-X":
				i++
				method = words[i]
			case w == "-H":
				i++
				key = strings.TrimPrefix(strings.Trim(words[i], "'"), api.IdempotencyKey+": ")
			case w == "--json":
				i++
				body = strings.Trim(words[i], "'")
			case strings.Contains(w, "/v1/"):
				if method == "" && body != "" {
					method = "POST"
				} else if method == "" {
					method = "GET"
				}
				calls = append(calls, call(t, method, "http://"+w, key, body))
				i = len(words) // a comment may follow
			default:
				t.Errorf("%s: what does %q mean in %s?", page, w, line[1])
			}
		}
	}
	return calls
}

// runsTypeScriptSamples compiles the TypeScript of examples strictly, in a folder with the compiler. The consumer must handle and
// acknowledge the producer's job.
func runsTypeScriptSamples(t *testing.T, folder string) {
	t.Helper()
	p := newProber(t)
	site := httptest.NewServer(p.usual())
	t.Cleanup(site.Close)
	changes := strings.NewReplacer("http://127.0.0.1:9277", site.URL, `"30m"`, "0")
	files := []string{"producer", "consumer"}
	for _, name := range files {
		text, err := os.ReadFile("../../../../examples/typescript/" + name + ".ts")
		check(t, err)
		check(t, os.WriteFile(filepath.Join(folder, name+".ts"), []byte(changes.Replace(string(text))+"\nexport {};\n"), 0o600))
	}
	write(t, filepath.Join(folder, "tsconfig.samples.json"), map[string]any{"extends": "./tsconfig.json", "files": []string{files[0] + ".ts", files[1] + ".ts"}})
	command(t, folder, "node_modules/.bin/tsc", "-p", "tsconfig.samples.json")
	command(t, folder, "node", filepath.Join("out", files[0]+".js"))
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var out strings.Builder
	consumer := exec.CommandContext(ctx, "node", filepath.Join(folder, "out", files[1]+".js"))
	consumer.Stdout, consumer.Stderr = &out, &out
	check(t, consumer.Start())
	for {
		_, err := p.Get(ctx, "close-order-1001")
		if err != nil {
			if ctx.Err() != nil {
				t.Errorf("the job was not acknowledged: %v", err)
			}
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	stop()
	consumer.Wait()
	if !strings.Contains(out.String(), "closing order 1001") {
		t.Errorf("the consumer prints %q", out.String())
	}
}

// yamlSamples defines the allowed keys of YAML samples in all documents, for Kubernetes and
// Prometheus.
type yamlSamples struct {
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`

	ScrapeConfigs []struct {
		JobName       string `yaml:"job_name"`
		Authorization struct {
			Type            string
			CredentialsFile string `yaml:"credentials_file"`
		}
		StaticConfigs []struct{ Targets []string } `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
	RuleFiles []string `yaml:"rule_files"`
}

type probe struct {
	HTTPGet struct {
		Path string
		Port int
	} `yaml:"httpGet"`
}

// YAML samples in both languages parse strictly: no key is repeated, unknown, or of another type.
func TestYAMLSamples(t *testing.T) {
	pages, err := filepath.Glob("../../../../docs/*.md")
	check(t, err)
	count := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		check(t, err)
		for _, sample := range docs.Samples(string(text)) {
			if sample.Language != "yaml" {
				continue
			}
			count++
			parser := yaml.NewDecoder(strings.NewReader(sample.Text))
			parser.KnownFields(true)
			for err = nil; err == nil; {
				err = parser.Decode(new(yamlSamples))
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s:%d: %v", page, sample.Line, err)
			}
		}
	}
	if count < 6 {
		t.Errorf("found %d samples", count)
	}
}
