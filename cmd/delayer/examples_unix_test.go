//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The shop in Go closes only the unpaid order, and sends both reminders.
func TestExampleShop(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	redis := redistest.Start(t)
	server := newSite(t, redis.Addr)
	server.start(t)
	program := filepath.Join(server.dir, "shop")
	if out, err := exec.Command("go", "build", "-o", program, "../../examples/shop").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	shop := startCommand(t, server.dir, os.Environ(), exec.Command(program, "-redis", "redis://"+redis.Addr, "-to-pay", "5s"))
	if code := shop.wait(); code != 0 {
		t.Errorf("it ends with %d: %s", code, shop.stderr)
	}
	out := shop.stdout.String()
	for _, want := range []string{"order 1001 is paid, its job was waiting\n", "order 1002 is closed\n", "reminder to ann@example.com\n", "reminder to bob@example.com\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "order 1001 is closed") {
		t.Errorf("a paid order is closed:\n%s", out)
	}
}

// The shop in PHP does the same.
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
