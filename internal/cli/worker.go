package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/runner"
	"github.com/mix-basic/delayer/internal/store"
)

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
