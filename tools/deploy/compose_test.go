//go:build !windows

package deploy

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// compose has what compose.yaml uses; another key is an error.
type compose struct {
	Name     string              `json:"name"`
	Services map[string]*service `json:"services"`
	Secrets  map[string]struct {
		File string `json:"file"`
	} `json:"secrets"`
	Volumes map[string]struct{} `json:"volumes"`
}

type service struct {
	Image       string            `json:"image"`
	Command     []string          `json:"command"`
	DependsOn   []string          `json:"depends_on"`
	Environment map[string]string `json:"environment"`
	Secrets     []string          `json:"secrets"`
	Volumes     []string          `json:"volumes"`
	Ports       []string          `json:"ports"`
	ReadOnly    bool              `json:"read_only"`
	CapDrop     []string          `json:"cap_drop"`
	SecurityOpt []string          `json:"security_opt"`
	Restart     string            `json:"restart"`
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// run starts a program; the test's end stops it and wants it to end well.
func run(t *testing.T, environment []string, name string, arguments ...string) {
	t.Helper()
	cmd := exec.Command(name, arguments...)
	var out strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = environment, &out, &out, t.TempDir()
	must(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v\n%s", filepath.Base(name), err, &out)
		}
	})
}

// build builds the daemon.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "delayer")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/delayer")
	cmd.Dir, cmd.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// The services of compose.yaml work together, as processes that have each other's addresses in place of the names.
func TestCompose(t *testing.T) {
	redisServer, err := exec.LookPath("redis-server")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	text, err := os.ReadFile(folder + "compose.yaml")
	must(t, err)
	var c compose
	must(t, yaml.UnmarshalStrict(text, &c))
	const token = "0123456789abcdef"
	secret := filepath.Join(t.TempDir(), c.Secrets["http_token"].File)
	must(t, os.WriteFile(secret, []byte(token+"\n"), 0o600))
	redisPort, httpPort, program := freePort(t), freePort(t), build(t)
	local := strings.NewReplacer("redis:6379", "127.0.0.1:"+redisPort, ":9277", ":"+httpPort, "/run/secrets/http_token", secret)
	if c.Services["redis"].Command[0] != "redis-server" || len(c.Services) != 3 {
		t.Fatalf("%+v", c.Services)
	}
	run(t, nil, redisServer, append(c.Services["redis"].Command[1:], "--port", redisPort)...)
	for _, name := range []string{"delayer", "standby"} {
		environment := []string{"DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG="} // as in the image
		for key, value := range c.Services[name].Environment {
			environment = append(environment, key+"="+local.Replace(value))
		}
		run(t, environment, program)
	}
	ask := func(host, token, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, "http://127.0.0.1:"+httpPort+path, strings.NewReader(body))
		must(t, err)
		r.Host = host
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		if body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	var stats struct{ Servers []any }
	deadline := time.Now().Add(30 * time.Second)
	for len(stats.Servers) < 2 {
		code, text := ask("delayer:9277", token, "GET", "/v1/stats", "")
		if json.Unmarshal([]byte(text), &stats); time.Now().After(deadline) {
			t.Fatalf("no two servers: %d %s", code, text)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, want := range []struct {
		host, token, method, path, body string
		code                            int
		text                            string
	}{
		{"delayer:9277", "", "GET", "/readyz", "", 200, ""},
		{"delayer:9277", "", "GET", "/v1/stats", "", 401, ""},
		{"elsewhere:9277", token, "GET", "/v1/stats", "", 421, ""},
		{"delayer:9277", token, "POST", "/v1/jobs", `{"topic":"mail","body":"b","delay":30}`, 201, ""},
		{"delayer:9277", token, "GET", "/v1/load?topic=mail&within=60", "", 200, `"load":1`},
		{"delayer:9277", token, "POST", "/v1/jobs", `{"topic":"soon","body":"b","delay":0.2}`, 201, ""},
		{"delayer:9277", token, "POST", "/v1/reserve?wait=20s", `{"topics":["soon"]}`, 200, `"body":"b"`},
	} {
		if code, text := ask(want.host, want.token, want.method, want.path, want.body); code != want.code || !strings.Contains(text, want.text) {
			t.Errorf("%s %s of %s: %d %s, want %d", want.method, want.path, want.host, code, text, want.code)
		}
	}
}

// The configuration of the kustomize base is one that the daemon takes.
func TestKubernetesConfiguration(t *testing.T) {
	secrets := t.TempDir()
	for _, name := range []string{"redis-password", "http-token"} {
		must(t, os.WriteFile(filepath.Join(secrets, name), []byte("0123456789abcdef"), 0o600))
	}
	conf := filepath.Join(t.TempDir(), "delayer.conf")
	text := strings.ReplaceAll(render(t).config.Data["delayer.conf"], "/run/secrets/delayer", secrets)
	must(t, os.WriteFile(conf, []byte(text), 0o600))
	if out, err := exec.Command(build(t), "--check-config", "-c", conf).CombinedOutput(); err != nil {
		t.Error(fmt.Sprint(err, "\n", string(out)))
	}
}
