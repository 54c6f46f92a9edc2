package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// levelRecovered is for the line that says that a failure is over. Package logger writes it to the error log.
const levelRecovered = slog.LevelInfo + 2

// logJobs logs jobs. It builds the record itself because slog.Logger would add the call's source, which is slow where a batch
// becomes a line for each job.
func logJobs(log *slog.Logger, level slog.Level, message, topic string, ids store.IDs) {
	h, ctx := log.Handler(), context.Background()
	if !h.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(time.Now(), level, message, 0)
	if topic != "" {
		r.AddAttrs(slog.String("topic", topic))
	}
	r.AddAttrs(slog.Any("ids", jobIDs(ids)))
	h.Handle(ctx, r)
}

// jobIDs are the IDs of a log record. Bytes is for handlers that need no strings.
type jobIDs store.IDs

func (ids jobIDs) Bytes() [][]byte {
	list := make([][]byte, len(ids))
	for i, id := range ids {
		list[i] = id.([]byte)
	}
	return list
}

func (ids jobIDs) LogValue() slog.Value {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id.([]byte))
	}
	return slog.AnyValue(list)
}

const remindAfter = time.Minute

// outages log a repeated error once when it begins, once a minute while it continues, and once, as an info, when it is over.
type outages struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex
	running map[string]*outage
}

type outage struct {
	began, logged time.Time
	times         int          // errors since it was last logged
	met           map[int]bool // the numbers of those that meet it
}

func newOutages(log *slog.Logger) *outages {
	return &outages{log: log, now: time.Now, running: map[string]*outage{}}
}

// report takes the result of an attempt. what is the log line for its failure.
func (o *outages) report(what string, err error) { o.reportOf(0, what, err) }

// reportOf is report for a failure that several movers may meet: it is over when none of them meets it any more.
func (o *outages) reportOf(number int, what string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, running := o.now(), o.running[what]
	switch {
	case err == nil && running == nil:
	case err == nil:
		if delete(running.met, number); len(running.met) == 0 {
			delete(o.running, what)
			o.log.Log(context.Background(), levelRecovered, fmt.Sprintf("%s: over after %v", what, duration.Format(now.Sub(running.began).Round(time.Millisecond))))
		}
	case running == nil:
		o.running[what] = &outage{began: now, logged: now, met: map[int]bool{number: true}}
		o.log.Error(fmt.Sprintf("%s: %v", what, err))
	default:
		running.times++
		running.met[number] = true
		if now.Sub(running.logged) >= remindAfter {
			o.log.Error(fmt.Sprintf("%s: still, for %v, %d more times: %v", what, duration.Format(now.Sub(running.began).Round(time.Second)), running.times, err))
			running.logged, running.times = now, 0
		}
	}
}

// reportMinor is report for work other than passes. An unreachable Redis is not reported, because passes report it, and
// there are reminders only if remind is set.
func (o *outages) reportMinor(what string, err error, remind bool) {
	if err == nil || !store.Temporary(err) && (remind || !o.isRunning(what)) {
		o.report(what, err)
	}
}

func (o *outages) isRunning(what string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.running[what] != nil
}
