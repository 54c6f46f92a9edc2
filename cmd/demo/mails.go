package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

// sendMails shows jobs that are reserved by a worker instead of popped.
func (t timeline) sendMails(ctx context.Context, c *client.Client, delayer, addr string) error {
	fmt.Print("\nMails are to be sent by a worker: it reserves its jobs, so that none is lost with it.\n\n")
	if err := t.pushMail(ctx, c, orphan); err != nil {
		return err
	}
	if err := t.crash(ctx, delayer, addr); err != nil {
		return err
	}
	for _, id := range []string{refused, wrong} {
		if err := t.pushMail(ctx, c, id); err != nil {
			return err
		}
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	var addressRight atomic.Bool
	var sent atomic.Int32
	mux := worker.NewMux()
	mux.HandleFunc(mailTopic, func(_ context.Context, job *worker.Job) error {
		switch {
		case job.ID == refused && job.Attempt == 1:
			t.say(job.ID, "attempt 1: the mail server is busy, again in 0.5 s")
			return worker.RetryAfter(errors.New("the mail server is busy"), 500*time.Millisecond)
		case job.ID == wrong && !addressRight.Load():
			t.say(job.ID, "attempt 1: no such address, trying again can't help")
			return worker.Bury(errors.New("no such address"))
		}
		t.say(job.ID, "attempt %d: sent", job.Attempt)
		return nil
	})
	err := worker.New(c, mux, worker.Options{Logger: slog.New(slog.DiscardHandler), Hooks: worker.Hooks{
		Done: func(*worker.Job, time.Duration) {
			if sent.Add(1) == 3 {
				stop()
			}
		},
		Buried: func(job *worker.Job, why error) {
			t.say(job.ID, "is a dead letter: %v", why)
			addressRight.Store(true)
			if err := c.Requeue(ctx, job.ID); err != nil {
				t.say(job.ID, "can't be requeued: %v", err)
				return
			}
			t.say(job.ID, "the address is put right, requeued")
		},
	}}).Run(running)
	if err == nil && sent.Load() < 3 {
		err = fmt.Errorf("mails sent in time: %d of 3", sent.Load())
	}
	if err != nil {
		return err
	}
	fmt.Println("\nEvery mail was sent: after a crash, after a failure, and after it was put right.")
	return nil
}

func (t timeline) pushMail(ctx context.Context, c *client.Client, id string) error {
	_, err := c.Push(ctx, client.Message{ID: id, Topic: mailTopic, Body: "Dear customer, …"}, 0)
	t.say(id, "pushed")
	return err
}

// crash lets another process reserve the first mail, and kills it.
func (t timeline) crash(ctx context.Context, delayer, addr string) error {
	cmd := exec.CommandContext(ctx, delayer, "worker", "--redis", "redis://"+addr, "--topic", mailTopic, "--lease", mailLease.String(), "--exec", "echo reserved && sleep 60")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = out.Read(make([]byte, 1))
	cmd.Process.Kill()
	cmd.Wait()
	t.say(orphan, "reserved for %v by a worker, which was killed", mailLease)
	return err
}
