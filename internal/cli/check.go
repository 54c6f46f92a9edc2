package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/health"
)

func beginCheck(f *flagSet) action {
	warning, critical := health.Limits{}, health.Limits{}
	f.one("warning", warning.Parse)
	f.one("critical", critical.Parse)
	return func(ctx context.Context, c *call) (reply, error) {
		return reply{}, c.monitor(ctx, filled(warning, health.DefaultWarning), filled(critical, health.DefaultCritical))
	}
}

// filled returns the given limits, completed with the standard ones.
func filled(given, standard health.Limits) health.Limits {
	for name, limit := range standard {
		if _, is := given[name]; !is {
			given[name] = limit
		}
	}
	return given
}

// monitor is a Nagios plugin: it prints one line, and its exit code is the status.
func (c *call) monitor(ctx context.Context, warning, critical health.Limits) error {
	status, line, err := health.Look(ctx, c.jobs).Monitor(warning, critical)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return err
		}
		line = fmt.Sprintf("DELAYER %v - Redis: %v", status, unreachable(err))
	}
	if err := c.write(ctx, exit.OneLine(line)+"\n"); err != nil || status == health.OK {
		return err
	}
	return exit.With(int(status), nil)
}
