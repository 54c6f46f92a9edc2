package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/runner"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// popLease is the lease of a job until it is printed. If the command is killed, the job is delivered again
	// after this time.
	popLease = 30 * time.Second
	// popRenewal is how often the lease is extended while nobody reads the output.
	popRenewal = popLease / 6
	// ackPatience is how long the acknowledgement of a printed job is retried while Redis is down.
	ackPatience = 3 * time.Second
	ackPause    = 100 * time.Millisecond
)

func runPop(ctx context.Context, c *call) (reply, error) {
	return c.take(ctx, client.FetchOptions{NoWait: true})
}

func runBPop(ctx context.Context, c *call) (_ reply, err error) {
	var o client.FetchOptions
	if len(c.arguments) > 1 {
		if o.Timeout, err = duration.Parse(c.arguments[1]); err != nil || o.Timeout < 0 || o.Timeout > store.MaxDelay {
			return reply{}, exit.With(exit.Usage, fmt.Errorf("TIMEOUT %q: want seconds, or a number with ms, s, m, h or d, from 0 to %s", c.arguments[1], duration.Bound(store.MaxDelay)))
		}
	}
	return c.take(ctx, o)
}

// take reserves the topic's next job; print acknowledges it. So no job is lost unseen. A Redis user without
// permission to reserve pops the job.
func (c *call) take(ctx context.Context, o client.FetchOptions) (reply, error) {
	if err := writable(c.stdout); err != nil {
		return reply{}, outputError(err)
	}
	topic := c.arguments[0]
	o.Topics, o.Max, o.Lease, o.MaxAttempts = []client.FetchTopic{{Topic: topic}}, 1, popLease, -1
	list, err := c.client.Fetch(ctx, o)
	var m client.Message
	switch {
	case err == nil:
		m = list[0].Message
		return reply{text: m.Body, json: messageJSON(m), job: list[0]}, nil
	case !store.Refused(err):
		return reply{}, c.explained(ctx, topic, fmt.Errorf("%s %q: %w", c.command.name, topic, errors.Unwrap(err)))
	case o.NoWait:
		m, err = c.client.Pop(ctx, topic)
	default:
		m, err = c.client.BPop(ctx, o.Timeout, topic)
	}
	return reply{text: m.Body, json: messageJSON(m)}, c.explained(ctx, topic, err)
}

// writable fails if it is already clear that the output can't be written.
func writable(output *os.File) error {
	if _, err := output.Write(nil); err != nil {
		return err
	}
	return notClosed(output)
}

// notClosed fails if the output was closed when the program started. In that case the Go runtime opened /dev/null in
// its place, for reading and writing.
func notClosed(output *os.File) error {
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return nil
	}
	info, err := output.Stat()
	if err != nil || !os.SameFile(info, null) {
		return err
	}
	if _, err := output.Read(make([]byte, 1)); errors.Is(err, io.EOF) {
		return errors.New("it is closed, or /dev/null for reading, too: want it open for writing")
	}
	return nil
}

// hold extends the lease of a job until free is called.
func hold(ctx context.Context, d *client.Delivery) (free func()) {
	ctx, free = context.WithCancel(context.WithoutCancel(ctx))
	if d == nil {
		return free
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(popRenewal):
				d.Extend(ctx, popLease) // errors appear when the job is settled
			}
		}
	}()
	return free
}

// settle acknowledges the job, or releases it if it could not be printed. Its error describes what happened to the
// job.
func settle(ctx context.Context, d *client.Delivery, notPrinted error) error {
	if notPrinted == nil {
		return acknowledge(ctx, d)
	}
	err := d.Release(context.WithoutCancel(ctx), 0)
	switch {
	case err == nil:
		return fmt.Errorf("%w; job %q is ready again", notPrinted, d.ID)
	case errors.Is(err, client.ErrLeaseLost):
		return fmt.Errorf("%w; job %q is not ours any more: it was pushed anew or removed, or our lease has ended", notPrinted, d.ID)
	}
	return fmt.Errorf("%w; job %q can't be released: %v; it is delivered again when its lease ends, in %v at most", notPrinted, d.ID, err, duration.Format(popLease))
}

func acknowledge(ctx context.Context, d *client.Delivery) error {
	for began := time.Now(); ; {
		err := d.Ack(context.WithoutCancel(ctx))
		switch {
		case err == nil:
			return nil
		case errors.Is(err, client.ErrLeaseLost):
			return exit.With(exit.Failed, fmt.Errorf("job %q was printed, but is not ours any more: it was pushed anew or removed, or our lease has ended; it may be delivered again", d.ID))
		case !store.Temporary(err) || time.Since(began) > ackPatience:
			return exit.With(exit.Redis, fmt.Errorf("job %q was printed, but is delivered again when its lease ends, in %v at most: %w", d.ID, duration.Format(popLease), err))
		}
		time.Sleep(ackPause)
	}
}

// maxConcurrency is the maximum number of programs at a time.
const maxConcurrency = 250

func beginWorker(f *flagSet) action {
	var o runner.Options
	f.several("topic", func(value string) error {
		for topic := range strings.SplitSeq(value, ",") {
			switch {
			case topic == "":
				return errors.New("a topic is empty: want TOPIC, or several with commas between them")
			case slices.Contains(o.Topics, topic):
				return fmt.Errorf("%q was given before", topic)
			}
			o.Topics = append(o.Topics, topic)
		}
		return nil
	})
	f.text("exec", &o.Shell)
	f.number("concurrency", &o.Worker.Concurrency, maxConcurrency)
	f.duration("lease", &o.Worker.Lease, store.MaxLease)
	f.duration("timeout", &o.Worker.Timeout, store.MaxDelay)
	f.number("max-attempts", &o.Worker.MaxAttempts, math.MaxInt32)
	f.check = func(program []string) error {
		switch {
		case len(o.Topics) == 0:
			return errors.New("--topic is missing: whose jobs are to be handled?")
		case o.Shell == "" && len(program) == 0:
			return errors.New("what is to be run? want --exec CMD, or a program and its arguments behind the options")
		case o.Shell != "" && len(program) > 0:
			return errors.New("want either --exec CMD or a program and its arguments, not both")
		case len(program) > 0 && program[0] == "":
			return errors.New("the program's name is empty")
		}
		return nil
	}
	return func(_ context.Context, c *call) (reply, error) {
		o.Program, o.JSON = c.arguments, c.json
		o.Obstacle = func(topic string) string { return c.obstacle(context.Background(), topic) }
		return reply{}, runner.Run(c.client, o, c.stdout, c.stderr)
	}
}
