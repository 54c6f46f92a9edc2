// Command demo shows Delayer at work; `make demo` runs it. It starts the daemon with its in-memory Redis,
// pushes orders that are closed unless they are paid in time, removes one that is paid, pops the others when
// they are due, and prints the timeline. Then a worker sends mails: one whose first consumer crashed, one
// that fails at first, and one that becomes a dead letter and is requeued.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

const topic = "close_order"

// The orders of the demo. One is paid, and its job removed, when the first of the others has been closed.
const paid = "order-1003"

var orders = []struct {
	id    string
	delay time.Duration
}{
	{"order-1001", 3 * time.Second},
	{"order-1002", 1 * time.Second},
	{paid, 2 * time.Second},
	{"order-1004", 1500 * time.Millisecond},
	{"order-1005", 250 * time.Millisecond},
	{"order-1006", 2500 * time.Millisecond},
}

func main() {
	delayer := flag.String("delayer", "bin/delayer", "the daemon's `file`")
	flag.Parse()
	if err := run(*delayer); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(delayer string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 14*time.Second)
	defer cancel()
	addr, stop, err := startDaemon(ctx, delayer)
	if err != nil {
		return err
	}
	defer stop()
	c, err := client.OpenPool(client.PoolOptions{Addr: addr})
	if err != nil {
		return err
	}
	defer c.Close()
	t := timeline(time.Now())
	if err := t.closeOrders(ctx, c); err != nil {
		return err
	}
	return t.sendMails(ctx, c, delayer, addr)
}

// startDaemon runs the daemon with an in-memory Redis and returns the address of that.
func startDaemon(ctx context.Context, path string) (addr string, stop func(), err error) {
	cmd := exec.CommandContext(ctx, path, "--dev")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		if cmd.Process.Signal(os.Interrupt) != nil { // Windows has no os.Interrupt
			cmd.Process.Kill()
		}
		cmd.Wait()
	}
	fmt.Println("$", path, "--dev")
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		fmt.Println(line)
		if _, rest, found := strings.Cut(line, "In-memory Redis on "); found {
			addr, _, _ = strings.Cut(rest, ": ")
		}
		if addr != "" && strings.Contains(line, "Service started successfully") {
			go io.Copy(io.Discard, out)
			return addr, stop, nil
		}
	}
	stop()
	return "", nil, errors.New("the daemon ended before it was ready")
}

// timeline says what happened when, since its start.
type timeline time.Time

func (t timeline) now() time.Duration { return time.Since(time.Time(t)) }

func (t timeline) say(id, what string, more ...any) {
	fmt.Printf("%7.3f s  %-10s  %s\n", t.now().Seconds(), id, fmt.Sprintf(what, more...))
}

// closeOrders pushes the orders and pops the due ones, until nothing has come for 1.5 s.
func (t timeline) closeOrders(ctx context.Context, c *client.Client) error {
	fmt.Println()
	due := map[string]time.Duration{}
	for _, o := range orders {
		due[o.id] = t.now() + o.delay
		m := client.Message{ID: o.id, Topic: topic, Body: fmt.Sprintf(`{"order":%q,"action":"close"}`, o.id)}
		if _, err := c.Push(ctx, m, o.delay); err != nil {
			return err
		}
		t.say(o.id, "pushed, due at %.3f s", due[o.id].Seconds())
	}
	for {
		m, err := c.BPop(ctx, 1500*time.Millisecond, topic)
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			return err
		}
		at, expected := due[m.ID]
		late := t.now() - at
		if !expected || late < 0 {
			return fmt.Errorf("%s came early, twice, or although it was removed", m.ID)
		}
		t.say(m.ID, "popped, late by %.1f ms", float64(late.Microseconds())/1000)
		delete(due, m.ID)
		if _, open := due[paid]; open {
			if was, err := c.Remove(ctx, paid); err != nil || was == "" {
				return fmt.Errorf("%s was not there to be removed: %v", paid, err)
			}
			t.say(paid, "paid and removed")
			delete(due, paid)
		}
	}
	if len(due) > 0 {
		return fmt.Errorf("orders did not come: %v", due)
	}
	fmt.Println("\nEvery order that was not paid came, once and on time.")
	return nil
}
