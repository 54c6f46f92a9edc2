package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"
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
	what        string
	began, said time.Time
	times       int // since it was last mentioned
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, now: time.Now, running: map[string]*outage{}}
}

// report tells how the thing called key fares: err, or nil when it is well.
// what names it in the log.
func (o *outages) report(key, what string, err error) {
	now, running := o.now(), o.running[key]
	switch {
	case err == nil && running == nil:
	case err == nil:
		delete(o.running, key)
		o.log.Log(context.Background(), LevelRecovered, fmt.Sprintf("%s: over after %v", running.what, now.Sub(running.began).Round(time.Millisecond)))
	case running == nil:
		o.running[key] = &outage{what: what, began: now, said: now}
		o.log.Error(fmt.Sprintf("%s: %v", what, err))
	default:
		running.times++
		if now.Sub(running.said) >= remindAfter {
			o.log.Error(fmt.Sprintf("%s: still, for %v, %d more times: %v", what, now.Sub(running.began).Round(time.Second), running.times, err))
			running.said, running.times = now, 0
		}
	}
}

// mention is report without the reminders, for what harms no job.
func (o *outages) mention(key, what string, err error) {
	if err == nil || o.running[key] == nil {
		o.report(key, what, err)
	}
}
