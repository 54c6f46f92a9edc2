package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// remindAfter is how often a continuing outage is logged again.
const remindAfter = time.Minute

// outages log a repeated error once when it begins, once a minute while it continues, and once, as an info, when it is over.
type outages struct {
	log     *slog.Logger
	now     func() time.Time
	running map[string]*outage
}

type outage struct {
	began, logged time.Time
	times         int // errors since it was last logged
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, now: time.Now, running: map[string]*outage{}}
}

// report takes the result of an attempt. what is the log line for its failure.
func (o *outages) report(what string, err error) {
	now, running := o.now(), o.running[what]
	switch {
	case err == nil && running == nil:
	case err == nil:
		delete(o.running, what)
		o.log.Log(context.Background(), levelRecovered, fmt.Sprintf("%s: over after %v", what, now.Sub(running.began).Round(time.Millisecond)))
	case running == nil:
		o.running[what] = &outage{began: now, logged: now}
		o.log.Error(fmt.Sprintf("%s: %v", what, err))
	default:
		running.times++
		if now.Sub(running.logged) >= remindAfter {
			o.log.Error(fmt.Sprintf("%s: still, for %v, %d more times: %v", what, now.Sub(running.began).Round(time.Second), running.times, err))
			running.logged, running.times = now, 0
		}
	}
}

// reportMinor is report for work other than passes. An unreachable Redis is not reported, because passes report it, and
// there are reminders only if remind is set.
func (o *outages) reportMinor(what string, err error, remind bool) {
	if err == nil || !store.Temporary(err) && (remind || o.running[what] == nil) {
		o.report(what, err)
	}
}
