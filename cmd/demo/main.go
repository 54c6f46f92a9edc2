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
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

const topic = "close_order"

// order is an order of the demo.
type order struct {
	id    string
	delay time.Duration
	paid  time.Duration // when it is paid and its job removed; 0: never
}

var orders = []order{
	{id: "order-1001", delay: 3 * time.Second},
	{id: "order-1002", delay: 1 * time.Second},
	{id: "order-1003", delay: 2 * time.Second, paid: 700 * time.Millisecond},
	{id: "order-1004", delay: 1500 * time.Millisecond},
	{id: "order-1005", delay: 250 * time.Millisecond},
	{id: "order-1006", delay: 2500 * time.Millisecond},
}

func main() {
	delayer := flag.String("delayer", "bin/delayer", "the daemon's `file`")
	crash := flag.String("crash", "", "reserve a job from the Redis at this `address`, and crash")
	flag.Parse()
	var err error
	if *crash != "" {
		err = reserveAndCrash(*crash)
	} else {
		err = run(*delayer)
	}
	if err != nil {
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

	timeline := timeline{start: time.Now(), due: map[string]time.Duration{}}
	if err := timeline.push(ctx, c); err != nil {
		return err
	}
	removed := make(chan error, 1)
	go func() { removed <- timeline.removePaid(ctx, c) }()
	if err := timeline.consume(ctx, c); err != nil {
		return err
	}
	if err := <-removed; err != nil {
		return err
	}
	return timeline.sendMails(ctx, c, addr)
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

type timeline struct {
	start time.Time
	due   map[string]time.Duration // due times of the unpaid orders
}

func (t *timeline) say(id, what string, more ...any) {
	fmt.Printf("%7.3f s  %-10s  %s\n", time.Since(t.start).Seconds(), id, fmt.Sprintf(what, more...))
}

func (t *timeline) push(ctx context.Context, c *client.Client) error {
	fmt.Println()
	for _, o := range orders {
		due := time.Since(t.start) + o.delay
		if o.paid == 0 {
			t.due[o.id] = due
		}
		m := client.Message{ID: o.id, Topic: topic, Body: fmt.Sprintf(`{"order":%q,"action":"close"}`, o.id)}
		if _, err := c.Push(ctx, m, o.delay); err != nil {
			return err
		}
		t.say(o.id, "pushed, due at %.3f s", due.Seconds())
	}
	return nil
}

// removePaid removes the paid orders in time.
func (t *timeline) removePaid(ctx context.Context, c *client.Client) error {
	for _, o := range orders {
		if o.paid == 0 {
			continue
		}
		time.Sleep(o.paid - time.Since(t.start))
		removed, err := c.Remove(ctx, o.id)
		if err != nil {
			return err
		}
		if !removed {
			return fmt.Errorf("%s was not there to be removed", o.id)
		}
		t.say(o.id, "paid and removed")
	}
	return nil
}

// consume pops due jobs until nothing has come for a second after the last.
func (t *timeline) consume(ctx context.Context, c *client.Client) error {
	last := slices.Max(slices.Collect(maps.Values(t.due)))
	for {
		wait := last + time.Second - time.Since(t.start)
		m, err := c.BPop(ctx, max(wait, time.Millisecond), topic)
		if errors.Is(err, client.ErrEmpty) {
			break
		}
		if err != nil {
			return err
		}
		due, expected := t.due[m.ID]
		if !expected {
			return fmt.Errorf("%s came although it was removed, or came twice", m.ID)
		}
		late := time.Since(t.start) - due
		t.say(m.ID, "popped, late by %.1f ms", float64(late.Microseconds())/1000)
		if late < 0 {
			return fmt.Errorf("%s came early", m.ID)
		}
		delete(t.due, m.ID)
	}
	for id := range t.due {
		return fmt.Errorf("%s did not come", id)
	}
	fmt.Println("\nEvery order that was not paid came, once and on time.")
	return nil
}
