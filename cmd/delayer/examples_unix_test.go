//go:build !windows

package main

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The service in Go closes only the order that is not paid, mails its customer, and stops when it is told to. What else it does is
// tested in its folder.
func TestExampleOrders(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	redis := redistest.Start(t)
	server := newSite(t, redis.Addr)
	server.start(t)
	program := filepath.Join(server.dir, "orders")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/orders").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	orders := startCommand(t, server.dir, os.Environ(), exec.Command(program, "-redis", "redis://"+redis.Addr, "-listen", "127.0.0.1:0", "-to-pay", "5s"))
	orders.expect(orders.stderr, "listening on ")
	_, address, _ := strings.Cut(strings.TrimSpace(orders.stderr.String()), "listening on ")
	for _, path := range []string{"/orders", "/orders", "/orders/1/paid"} {
		answer, err := http.Post("http://"+address+path, "", nil)
		check(t, err)
		answer.Body.Close()
		if answer.StatusCode >= 300 {
			t.Fatalf("POST %s: %s", path, answer.Status)
		}
	}
	orders.expect(orders.stderr, "mail: order 2 is closed\n")
	orders.signal(syscall.SIGTERM)
	orders.ends(0)
	if strings.Contains(orders.stderr.String(), "order 1 is closed") {
		t.Errorf("a paid order is closed: %s", orders.stderr)
	}
}

// The scripts in PHP close only the order that is not paid.
func TestExamplePHP(t *testing.T) {
	if _, err := exec.LookPath("php"); err != nil {
		t.Skip("php is not installed; make e2e installs it")
	}
	t.Parallel()
	server := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
	env := append(os.Environ(), "DELAYER_URL="+urlOf(server.start(t)))
	php := func(script string, args ...string) *process {
		path, err := filepath.Abs("../../examples/php/" + script)
		check(t, err)
		return startCommand(t, server.dir, env, exec.Command("php", append([]string{path}, args...)...))
	}
	for _, c := range [][]string{{"order.php", "1001", "400ms"}, {"order.php", "1002", "500ms"}, {"pay.php", "1001"}} {
		if p := php(c[0], c[1:]...); p.wait() != 0 {
			t.Fatalf("%q: %s%s", c, p.stdout, p.stderr)
		}
	}
	worker := php("worker.php")
	worker.expect(worker.stdout, "order 1002 is closed\n")
	if strings.Contains(worker.stdout.String(), "1001") {
		t.Errorf("a paid order is closed: %s", worker.stdout)
	}
	server.acknowledged(t, "close-order-1002")
}

// The script handles a job, and buries a job that can never work.
func TestExampleExec(t *testing.T) {
	script, err := filepath.Abs("../../examples/exec/close-order.sh")
	check(t, err)
	t.Parallel()
	s, db := newShell(t)
	w := s.startWorker("--exec", script)
	s.push("1", `{"number":1001}`)
	w.expect(w.stdout, "order 1001 is closed, attempt 1\n")
	s.push("2", "no order")
	eventually(t, "the second job is a dead letter", func() bool { return len(db.State().Dead) == 1 })
}

// In each installed language, the example of a producer pushes a job, and that of a consumer handles and acknowledges it. A test
// of internal/web/api/openapitest runs those in TypeScript.
func TestSamplesInOtherLanguages(t *testing.T) {
	redistest.Long(t)
	for _, language := range []struct{ name, program, producer, consumer string }{
		{"python", "python3", "producer.py", "consumer.py"},
		{"java", "java", "Producer.java", "Consumer.java"},
	} {
		t.Run(language.name, func(t *testing.T) {
			if _, err := exec.LookPath(language.program); err != nil {
				t.Skip(language.program + " is not installed")
			}
			server := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0")
			changes := strings.NewReplacer("http://127.0.0.1:9277", urlOf(server.start(t)), `"30m"`, `"100ms"`)
			var programs []*process
			for _, name := range []string{language.producer, language.consumer} {
				file := filepath.Join(server.dir, name)
				write(t, file, changes.Replace(read(t, "../../examples/"+language.name+"/"+name)))
				programs = append(programs, startCommand(t, server.dir, os.Environ(), exec.Command(language.program, file)))
			}
			if code := programs[0].wait(); code != 0 {
				t.Fatalf("the producer ends with %d: %s%s", code, programs[0].stdout, programs[0].stderr)
			}
			programs[1].expect(programs[1].stdout, "1001")
			server.acknowledged(t, "close-order-1001")
		})
	}
}

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
