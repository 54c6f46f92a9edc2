//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Every command in a document works as shown, and answers have the documented fields. internal/docs/TestTranslatedSamples shows that
// Chinese pages have the same ones.
func TestShellSamples(t *testing.T) {
	count := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		check(t, err)
		for _, page := range pages {
			if strings.HasSuffix(page, ".zh-CN.md") || strings.HasSuffix(page, "tutorial.md") { // which TestTutorial runs
				continue
			}
			var commands []sampleCommand
			program := "package main\n\nimport _ \"github.com/mix-basic/delayer/client\"\n\nfunc main() {}\n"
			for _, sample := range docs.Samples(read(t, page)) {
				switch sample.Language {
				case "go":
					if strings.Contains(sample.Text, "\nfunc main() {") {
						program = sample.Text
					}
				case "sh":
					commands = append(commands, commandsOf(sample, "")...)
				case "console":
					commands = append(commands, commandsOf(sample, "$ ")...)
				}
			}
			if count += len(commands); len(commands) > 0 {
				t.Run(filepath.Base(page), func(t *testing.T) {
					t.Parallel()
					runSamples(t, commands, program)
				})
			}
		}
	}
	if count < 60 {
		t.Errorf("found %d commands", count)
	}
}

// sampleCommand is a command in a document, with the answer after it.
type sampleCommand struct {
	line   int
	text   string
	answer string
}

// commandsOf returns the commands of a sample. The prompt distinguishes them from their output. A line with only a comment
// continues the comment of the line above.
func commandsOf(s docs.Sample, prompt string) (list []sampleCommand) {
	for i, text := range strings.Split(strings.TrimSuffix(s.Text, "\n"), "\n") {
		switch shown, isCommand := strings.CutPrefix(text, prompt); {
		case strings.TrimSpace(text) == "" || strings.HasPrefix(strings.TrimSpace(text), "#"):
		case isCommand:
			list = append(list, sampleCommand{line: s.Line + 1 + i, text: shown})
		case len(list) > 0:
			list[len(list)-1].answer += text + "\n"
		}
	}
	return list
}

// sampleShell runs the samples of a page from top to bottom.
type sampleShell struct {
	site
	http  string
	redis string // options of redis-cli
	env   []string
	token string // of the last lease shown
}

func runSamples(t *testing.T, commands []sampleCommand, program string) {
	db := redistest.Start(t)
	s := sampleShell{site: newSite(t, db.Addr, "partitions = 2", "[http]", "listen = 127.0.0.1:0")}
	host, port, _ := strings.Cut(db.Addr, ":")
	s.redis = "redis-cli -h " + host + " -p " + port + " "
	bin := t.TempDir()
	delayer, err := filepath.Abs(binary)
	check(t, err)
	check(t, os.Symlink(delayer, filepath.Join(bin, "delayer")))
	project, err := filepath.Abs("../..")
	check(t, err)
	check(t, os.Symlink(project, filepath.Join(filepath.Dir(s.dir), "delayer")))
	check(t, os.WriteFile(filepath.Join(s.dir, "close-order.php"), []byte("#!/bin/sh\ncat\n"), 0o755))
	mod := "module shop\n\ngo 1.25.0\n"
	if !slices.ContainsFunc(commands, func(c sampleCommand) bool { return strings.Contains(c.text, "-replace") }) {
		mod += "\nreplace github.com/mix-basic/delayer => ../delayer\n"
	}
	write(t, filepath.Join(s.dir, "go.mod"), mod)
	write(t, filepath.Join(s.dir, "main.go"), strings.Replace(program, "redis://127.0.0.1:6379", "redis://"+db.Addr+"?partitions=2", 1))
	s.env = append(environment(t, "DELAYER_HTTP_LISTEN=127.0.0.1:0"), "PATH="+bin+":"+os.Getenv("PATH"))
	s.env = append(s.env, goEnvironment()...)
	serving := newSite(t, db.Addr, "partitions = 2", "[http]", "listen = 127.0.0.1:0")
	s.http = urlOf(serving.start(t))
	for _, c := range commands {
		s.run(t, c)
	}
}

// goEnvironment is what the go command needs of the tests' environment.
var goEnvironment = sync.OnceValue(func() (list []string) {
	names := []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB", "GOTOOLCHAIN"}
	values, _ := exec.Command("go", append([]string{"env"}, names...)...).Output()
	for i, value := range strings.Split(strings.TrimSuffix(string(values), "\n"), "\n") {
		list = append(list, names[i]+"="+value)
	}
	return list
})

// elsewhere matches commands that other tests run, or that are for another machine.
var elsewhere = regexp.MustCompile(strings.Join([]string{
	`^systemctl enable --now delayer`,                // covered by TestInstallSystemd
	`^go run github\.com/oapi-codegen|^npx openapi-`, // covered by the tests of openapitest
	`^go run -C bench `,                              // covered by bench/TestDocumentedCommands
	`^dpkg -i |^editor `,                             // covered by the tests of tools/release
	`^skopeo copy |^docker run `,                     // need a registry
}, "|"))

var lease = regexp.MustCompile(`"token":\d+`)

// push pushes a ready job.
func (s *sampleShell) push(t *testing.T, c sampleCommand, topic string) {
	t.Helper()
	s.output(t, c, "delayer -c delayer.conf push "+topic+" 0 '{}' --id order-1001")
}

// run runs a command, and compares its answer if the document shows one.
func (s *sampleShell) run(t *testing.T, c sampleCommand) {
	t.Helper()
	text := strings.NewReplacer("https://jobs.example.com:9277", s.http, "localhost:9277", strings.TrimPrefix(s.http, "http://"), "redis-cli ", s.redis).Replace(c.text)
	switch {
	case elsewhere.MatchString(text):
		return
	case strings.HasPrefix(text, "make "):
		s.output(t, c, strings.Replace(text, "make ", "make -n -C ../delayer ", 1))
		return
	case strings.HasPrefix(text, "go mod init"):
		check(t, os.Remove(filepath.Join(s.dir, "go.mod")))
	case text == "go run .":
		s.output(t, c, "go build -o program .")
		p := startCommand(t, s.dir, s.env, exec.Command("./program"))
		p.expect(p.stderr, "closing order 1002")
		p.signal(syscall.SIGINT)
		if p.ends(0); strings.Contains(p.stderr.String(), "order 1001") {
			t.Errorf("line %d: the cancelled job is handled: %s", c.line, p.stderr)
		}
		return
	case strings.HasPrefix(text, "delayer worker"):
		s.stopped(t, text, "the worker has started")
		return
	case strings.HasPrefix(text, "delayer --dev"), regexp.MustCompile(`^delayer -c delayer.conf *(#|$)`).MatchString(text):
		s.stopped(t, text, started)
		return
	case strings.Contains(text, "/v1/reserve"):
		s.push(t, c, regexp.MustCompile(`"topics":\["(\w+)"`).FindStringSubmatch(text)[1])
	case strings.HasPrefix(text, "delayer dead requeue"):
		topic := strings.Fields(text)[3]
		s.push(t, c, topic)
		token := lease.FindString(s.output(t, c, fmt.Sprintf(`curl -sS --json '{"topics":["%s"]}' '%s/v1/reserve?wait=30s'`, topic, s.http)))
		s.output(t, c, fmt.Sprintf(`curl -sS --fail-with-body --json '{"topic":"%s",%s}' %s/v1/jobs/order-1001/bury`, topic, token, s.http))
	case strings.Contains(text, "/ack"):
		text = lease.ReplaceAllString(text, s.token)
	}
	if strings.HasPrefix(text, "delayer ") && !strings.Contains(text, " -c ") {
		text = strings.Replace(text, "delayer ", "delayer -c delayer.conf ", 1)
	}
	if strings.Contains(text, " doctor") {
		text, _, _ = strings.Cut(text, "#")
		text += "|| test $? = 1" // something is wrong, such as a Redis that keeps nothing
	}
	out := s.output(t, c, strings.Replace(text, "curl ", "curl -sS --fail-with-body --max-time 60 ", 1))
	if token := lease.FindString(out); token != "" {
		s.token = token
	}
	if strings.Contains(text, " -d") && strings.HasPrefix(text, "delayer ") {
		s.kill(t)
	}
	if strings.HasPrefix(strings.TrimSpace(c.answer), "{") && !strings.Contains(c.answer, "…") {
		s.compare(t, c, out)
	}
}

// output runs a command, which must succeed, and returns its standard output.
func (s *sampleShell) output(t *testing.T, c sampleCommand, text string) string {
	t.Helper()
	p := startCommand(t, s.dir, s.env, exec.Command("sh", "-c", text))
	if code := p.wait(); code != 0 {
		t.Errorf("line %d: %s: exit code %d\n%s%s", c.line, text, code, p.stdout, p.stderr)
	}
	return p.stdout.String()
}

// stopped runs a program that works until it is stopped.
func (s *sampleShell) stopped(t *testing.T, text, ready string) {
	t.Helper()
	if !strings.Contains(text, "delayer.conf") {
		text = strings.Replace(text, "delayer ", "delayer -c delayer.conf ", 1)
	}
	cmd := exec.Command("sh", "-c", "exec "+text+" 2>&1")
	p := startCommand(t, s.dir, s.env, cmd)
	p.expect(p.stdout, ready)
	p.stopped()
}

// compare checks that a JSON answer has the fields of the documented one, with the same types.
func (s *sampleShell) compare(t *testing.T, c sampleCommand, got string) {
	t.Helper()
	var want, have any
	if err := json.Unmarshal([]byte(c.answer), &want); err != nil {
		t.Errorf("line %d: %v", c.line+1, err)
	}
	if err := json.Unmarshal([]byte(got), &have); err != nil {
		t.Errorf("line %d: %v: %s", c.line, err, got)
	}
	if path := differs("", want, have); path != "" {
		t.Errorf("line %d: %s: the answer %s\nlacks %s of the documented\n%s", c.line, c.text, got, path, c.answer)
	}
}

// Redis starts with every sample of its configuration, and a sentinel with every sample for
// sentinels.
func TestRedisSamples(t *testing.T) {
	count := 0
	pages, err := filepath.Glob("../../docs/*.md")
	check(t, err)
	for _, page := range pages {
		for _, sample := range docs.Samples(read(t, page)) {
			mode, ready := "", "Ready to accept connections"
			switch sample.Language {
			case "conf sentinel.conf":
				mode, ready = "--sentinel", "Sentinel ID is"
			case "conf redis.conf":
			default:
				continue
			}
			count++
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(page), sample.Line), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				conf := filepath.Join(dir, "sample.conf")
				write(t, conf, sample.Text)
				_, port, _ := strings.Cut(redistest.Nobody(t), ":")
				args := []string{conf, "--bind", "127.0.0.1", "--port", port, "--dir", dir}
				if mode != "" {
					args = append(args, mode)
				}
				p := startCommand(t, dir, os.Environ(), exec.Command("redis-server", args...))
				p.expect(p.stdout, ready)
			})
		}
	}
	if count < 6 {
		t.Errorf("found %d samples", count)
	}
}

// The probes of the Kubernetes sample answer.
func TestProbeSamples(t *testing.T) {
	t.Parallel()
	url := urlOf(newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0").start(t))
	for _, page := range []string{"metrics.md", "metrics.zh-CN.md"} {
		probes := regexp.MustCompile(`Probe: +\{httpGet: \{path: (/\w+), port: 9277\}\}`).FindAllStringSubmatch(read(t, "../../docs/"+page), -1)
		if len(probes) != 2 {
			t.Errorf("%s has %d probes", page, len(probes))
		}
		for _, probe := range probes {
			eventually(t, page+": "+probe[1]+" answers 200", func() bool {
				status, _ := get(t, http.DefaultClient, url+probe[1])
				return status == http.StatusOK
			})
		}
	}
}

// differs returns the path of the first value that lacks something; empty if nothing differs. Values of the
// same type are equal.
func differs(path string, want, have any) string {
	if reflect.TypeOf(want) != reflect.TypeOf(have) {
		return path
	}
	switch want := want.(type) {
	case map[string]any:
		for name, value := range want {
			if found := differs(path+"/"+name, value, have.(map[string]any)[name]); found != "" {
				return found
			}
		}
	case []any:
		for i, value := range want {
			if i >= len(have.([]any)) {
				return fmt.Sprintf("%s/%d", path, i)
			}
			if found := differs(fmt.Sprintf("%s/%d", path, i), value, have.([]any)[i]); found != "" {
				return found
			}
		}
	}
	return ""
}
