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
