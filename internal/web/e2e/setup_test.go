package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// browser is the path of Chromium. Without it tests are skipped, except in CI.
var browser = func() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}()

// delayer is the daemon, built once.
var delayer string

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "delayer-e2e")
	if err == nil {
		delayer = filepath.Join(folder, "delayer")
		build := exec.Command("go", "build", "-C", "../../..", "-o", delayer, "./cmd/delayer")
		build.Stderr = os.Stderr
		err = build.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}

// check fails the test on an error.
var check = redistest.Check

// startDelayer starts a daemon on that Redis, and returns the address of its HTTP server. lines are
// added to [http].
func startDelayer(t *testing.T, redis *redistest.Server, lines string) (url string) {
	t.Helper()
	host, port, _ := net.SplitHostPort(redis.Addr)
	configuration := filepath.Join(t.TempDir(), "delayer.conf")
	text := fmt.Sprintf("[delayer]\npid =\naccess_log =\nerror_log =\n[redis]\nhost = %s\nport = %s\n[http]\nlisten = 127.0.0.1:0\n%s", host, port, lines)
	check(t, os.WriteFile(configuration, []byte(text), 0o600))
	cmd := exec.Command(delayer, "-c", configuration)
	out, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	})
	front := regexp.MustCompile(`(?m)^HTTP server:\s+(\S+)$`)
	found := make(chan string, 1)
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			if m := front.FindStringSubmatch(s.Text()); m != nil {
				found <- m[1]
			}
			if testing.Verbose() {
				fmt.Println(s.Text())
			}
		}
		close(found)
	}()
	url, ok := <-found
	if !ok {
		t.Fatal("the daemon has ended, and has not said where its front is")
	}
	return url
}

// patience is the maximum time for a page on a slow machine.
const patience = 30 * time.Second

// openBrowser opens a browser with an empty tab.
func openBrowser(t *testing.T) context.Context {
	t.Helper()
	if browser == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is missing: tools/prepare.sh installs it")
		}
		t.Skip("chromium is missing")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	check(t, chromedp.Run(ctx)) // outside the time limit of a test
	return ctx
}
