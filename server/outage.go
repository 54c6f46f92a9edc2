package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// remindAfter is how often an outage that goes on is mentioned again.
const remindAfter = time.Minute

// outages turn errors that repeat into a line when they begin, a reminder each
// minute, and a line when they end, which is no error.
type outages struct {
	log     *slog.Logger
	now     func() time.Time
	running map[string]*outage
}

type outage struct {
	began, said time.Time
	times       int // since it was last mentioned
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, now: time.Now, running: map[string]*outage{}}
}

// report tells why something does not work, or nil when it does. what says in the log that it does not.
func (o *outages) report(what string, err error) {
	now, running := o.now(), o.running[what]
	switch {
	case err == nil && running == nil:
	case err == nil:
		delete(o.running, what)
		o.log.Log(context.Background(), levelRecovered, fmt.Sprintf("%s: over after %v", what, now.Sub(running.began).Round(time.Millisecond)))
	case running == nil:
		o.running[what] = &outage{began: now, said: now}
		o.log.Error(fmt.Sprintf("%s: %v", what, err))
	default:
		running.times++
		if now.Sub(running.said) >= remindAfter {
			o.log.Error(fmt.Sprintf("%s: still, for %v, %d more times: %v", what, now.Sub(running.began).Round(time.Second), running.times, err))
			running.said, running.times = now, 0
		}
	}
}

// aside is report for work beside the passes. That Redis is away is left to the passes to report, and
// there are reminders only if remind is set: what harms no job needs none.
func (o *outages) aside(what string, err error, remind bool) {
	if err == nil || !store.Temporary(err) && (remind || o.running[what] == nil) {
		o.report(what, err)
	}
}
