package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

const (
	mailTopic = "send_mail"
	mailLease = time.Second
)

// The mails of the demo.
const (
	orphan  = "mail-1" // its consumer crashes
	refused = "mail-2" // the first attempt fails
	wrong   = "mail-3" // no attempt succeeds until somebody corrects the address
)

// mailer is a worker's handler that sends mails.
type mailer struct {
	*timeline
	addressRight atomic.Bool
	buried, sent chan *worker.Job
}

func (m *mailer) handle(_ context.Context, job *worker.Job) error {
	switch {
	case job.ID == refused && job.Attempt == 1:
		m.say(job.ID, "attempt 1: the mail server is busy, again in 0.5 s")
		return worker.RetryAfter(errors.New("the mail server is busy"), 500*time.Millisecond)
	case job.ID == wrong && !m.addressRight.Load():
		m.say(job.ID, "attempt 1: no such address, trying again can't help")
		return worker.Bury(errors.New("no such address"))
	}
	m.say(job.ID, "attempt %d: sent", job.Attempt)
	return nil
}

// sendMails shows jobs that are reserved by a worker instead of popped.
func (t *timeline) sendMails(ctx context.Context, c *client.Client, addr string) error {
	fmt.Print("\nMails are to be sent by a worker: it reserves its jobs, so that none is lost with it.\n\n")
	if err := t.pushMail(ctx, c, orphan); err != nil {
		return err
	}
	if err := t.crash(ctx, addr); err != nil {
		return err
	}
	for _, id := range []string{refused, wrong} {
		if err := t.pushMail(ctx, c, id); err != nil {
			return err
		}
	}
	m := &mailer{timeline: t, buried: make(chan *worker.Job, 1), sent: make(chan *worker.Job, 3)}
	mux := worker.NewMux()
	mux.HandleFunc(mailTopic, m.handle)
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- worker.New(c, mux, worker.Options{Logger: slog.New(slog.DiscardHandler), Hooks: worker.Hooks{
			Done:   func(job *worker.Job, _ time.Duration) { m.sent <- job },
			Buried: func(job *worker.Job, _ error) { m.buried <- job },
		}}).Run(running)
	}()
	if err := m.await(ctx, c); err != nil {
		return err
	}
	stop()
	if err := <-ended; err != nil {
		return err
	}
	fmt.Println("\nEvery mail was sent: after a crash, after a failure, and after it was put right.")
	return nil
}

func (t *timeline) pushMail(ctx context.Context, c *client.Client, id string) error {
	_, err := c.Push(ctx, client.Message{ID: id, Topic: mailTopic, Body: "Dear customer, …"}, 0)
	t.say(id, "pushed")
	return err
}

// crash lets another process, this program again, reserve the first mail and exit.
func (t *timeline) crash(ctx context.Context, addr string) error {
	cmd := exec.CommandContext(ctx, os.Args[0], "-crash", addr)
	cmd.Stderr = os.Stderr
	err := cmd.Run()
	if err == nil || cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != crashed {
		return fmt.Errorf("the consumer that is to crash: %v", err)
	}
	t.say(orphan, "reserved for %v by a consumer, which has crashed", mailLease)
	return nil
}

// crashed is the exit code of the consumer that exits with a job.
const crashed = 99

func reserveAndCrash(addr string) error {
	c, err := client.OpenPool(client.PoolOptions{Addr: addr})
	if err != nil {
		return err
	}
	if _, err := c.Reserve(context.Background(), 5*time.Second, mailLease, mailTopic); err != nil {
		return err
	}
	os.Exit(crashed)
	return nil
}

// await waits until all mails are sent, and requeues the dead letter.
func (m *mailer) await(ctx context.Context, c *client.Client) error {
	attempts, want := map[string]int{}, map[string]int{orphan: 2, refused: 2, wrong: 1}
	for len(attempts) < len(want) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("mails were sent at these attempts only: %v", attempts)
		case job := <-m.sent:
			attempts[job.ID] = job.Attempt
		case job := <-m.buried:
			for letter, err := range c.Dead(ctx, mailTopic) {
				if err != nil {
					return err
				}
				m.say(letter.ID, "is a dead letter: %s", letter.Reason)
			}
			m.addressRight.Store(true)
			if err := c.Requeue(ctx, job.ID); err != nil {
				return err
			}
			m.say(job.ID, "the address is put right, requeued")
		}
	}
	if !maps.Equal(attempts, want) {
		return fmt.Errorf("mails were sent at these attempts: %v", attempts)
	}
	return nil
}
