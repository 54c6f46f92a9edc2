//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The PHP samples are valid. Samples that need no PHP extension are run.
func TestPHPSamples(t *testing.T) {
	redistest.Long(t)
	if _, err := exec.LookPath("php"); err != nil {
		if os.Getenv("PHP") == "needed" {
			t.Fatal("php is not installed; make e2e installs it")
		}
		t.Skip("php is not installed; make e2e installs it")
	}
	for page, samples := range map[string]int{"php.md": 3, "rabbitmq.md": 1} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			testPHPSamples(t, page, samples)
		})
	}
}

// delayerFunction returns the function with which samples of other pages call the API, from the page on PHP.
func delayerFunction(t *testing.T) string {
	for _, sample := range docs.Samples(read(t, "../../docs/php.md")) {
		if text, _, is := strings.Cut(sample.Text, "\ndelayer('POST'"); is && strings.HasPrefix(text, "function delayer(") {
			return text
		}
	}
	t.Fatal("php.md has no function delayer")
	return ""
}

func testPHPSamples(t *testing.T, page string, samples int) {
	server := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
	front := urlOf(server.start(t))
	php := func(name, text, input string) *process {
		file := filepath.Join(server.dir, name)
		if !strings.Contains(text, "<?php") {
			text = "<?php\n" + text
		}
		write(t, file, text+"\nfunction closeOrder(array $order) { echo \"closed $order[order]\\n\"; }\n")
		check(t, os.Chmod(file, 0o755))
		cmd := exec.Command("php", "-l", file)
		if lint := startCommand(t, server.dir, os.Environ(), cmd); lint.wait() != 0 {
			t.Fatalf("%s: %s%s", page, lint.stdout, lint.stderr)
		}
		cmd = exec.Command(file)
		if !strings.HasPrefix(text, "#!") {
			cmd = exec.Command("php", file)
		}
		cmd.Stdin = strings.NewReader(input)
		return startCommand(t, server.dir, os.Environ(), cmd)
	}
	count := 0
	for _, sample := range docs.Samples(read(t, "../../docs/"+page)) {
		switch {
		case sample.Language != "php":
			continue
		case strings.Contains(sample.Text, `\Delayer\Client`):
			php("original.php", "if (false) {\n"+sample.Text+"}", "") // needs the original's package and the redis extension
		case strings.Contains(sample.Text, "/v1/reserve"):
			text := strings.NewReplacer("http://127.0.0.1:9277", front, "'30m'", "'1s'").Replace(sample.Text)
			if !strings.Contains(text, "function delayer(") {
				text = strings.Replace(delayerFunction(t), "http://127.0.0.1:9277", front, 1) + text
			}
			p := php("http.php", text, "")
			p.expect(p.stdout, "closed 1001\n")
			id := strings.Split(text[strings.Index(text, "['id' => '"):], "'")[3]
			server.acknowledged(t, id)
		case strings.HasPrefix(sample.Text, "#!"):
			p := php("close-order.php", sample.Text, `{"order":"1001"}`)
			if code := p.wait(); code != 0 || p.stdout.String() != "closed 1001\n" {
				t.Errorf("%s:%d ends with %d: %s%s", page, sample.Line, code, p.stdout, p.stderr)
			}
			if code := php("close-order.php", sample.Text, "no JSON").wait(); code != 65 {
				t.Errorf("%s:%d ends with %d for a body that will never work", page, sample.Line, code)
			}
		default:
			t.Errorf("%s:%d is not run", page, sample.Line)
		}
		count++
	}
	if count != samples {
		t.Errorf("%s has %d samples", page, count)
	}
}
