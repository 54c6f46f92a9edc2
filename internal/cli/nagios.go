package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/health"
)

// beginNagios prepares a Nagios plugin: it prints one line, and its exit code is the status.
func beginNagios(f *flagSet) action {
	warning, critical := maps.Clone(health.DefaultWarning), maps.Clone(health.DefaultCritical)
	f.one("warning", warning.Parse)
	f.one("critical", critical.Parse)
	return func(ctx context.Context, c *call) (reply, error) {
		status, line, err := health.Look(ctx, c.jobs).Monitor(warning, critical)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return reply{}, err
			}
			line = fmt.Sprintf("DELAYER %v - Redis: %v", status, unreachable(err))
		}
		if err := c.write(ctx, exit.OneLine(line)+"\n"); err != nil || status == health.OK {
			return reply{}, err
		}
		return reply{}, exit.With(int(status), nil)
	}
}
