package server

import (
	"bytes"
	"errors"
	"log/slog"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// TestOutages reports results of two operations at different times.
func TestOutages(t *testing.T) {
	log := new(recorder)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	began := now
	o := newOutages(slog.New(lines{log}))
	o.now = func() time.Time { return now }
	down, other := errors.New("connection refused"), errors.New("i/o timeout")
	for _, step := range []struct {
		at   time.Duration
		what string
		err  error
		want string // the line, an error unless the outage is over
	}{
		{0, "Redis", nil, ""},
		{time.Second, "Redis", down, "Redis: connection refused"},
		{2 * time.Second, "Redis", down, ""},
		{3 * time.Second, "topic t", other, "topic t: i/o timeout"},
		{4 * time.Second, "Redis", other, ""},
		{60 * time.Second, "Redis", down, ""},
		{61*time.Second - 1, "Redis", down, ""},
		{61 * time.Second, "Redis", other, "Redis: still, for 1m, 5 more times: i/o timeout"},
		{62 * time.Second, "Redis", down, ""},
		{63 * time.Second, "topic t", nil, "topic t: over after 1m"},
		{64 * time.Second, "topic t", nil, ""},
		{120 * time.Second, "Redis", down, ""},
		{121 * time.Second, "Redis", down, "Redis: still, for 2m, 3 more times: connection refused"},
		{600 * time.Second, "Redis", down, "Redis: still, for 9m59s, 1 more times: connection refused"},
		{601*time.Second + 1500*time.Microsecond, "Redis", nil, "Redis: over after 10m0.002s"},
		{602 * time.Second, "Redis", nil, ""},
		{603 * time.Second, "Redis", down, "Redis: connection refused"},
		{603*time.Second + 250*time.Millisecond, "Redis", nil, "Redis: over after 250ms"},
	} {
		now = began.Add(step.at)
		log.info, log.errors = nil, nil
		o.report(step.what, step.err)
		var info, errors []string
		switch {
		case strings.Contains(step.want, "over after"):
			info = []string{step.want}
		case step.want != "":
			errors = []string{step.want}
		}
		if !reflect.DeepEqual(log.info, info) || !reflect.DeepEqual(log.errors, errors) {
			t.Errorf("at %v: said %q and the errors %q, want %q and %q", step.at, log.info, log.errors, info, errors)
		}
	}
}

// TestOutageLines takes Redis away for many passes, at the start and again later. Each outage is an error in the log,
// followed by a line when it is over.
func TestOutageLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 3 {
		w.Kill()
		if n == 0 {
			w.run()
		}
		until(t, "the outage is told", func() bool { _, errors := w.log.lines(); return len(errors) > n })
		w.awaitDials(5)
		w.Restart()
		until(t, "its end is told", func() bool { info, _ := w.log.lines(); return mention(info, "over after") > n })
		w.push("a", "t", 1)
		w.log.awaitMoved(t, n+1)
		info, errors := w.log.lines()
		errors = slices.DeleteFunc(errors, func(line string) bool { return strings.HasPrefix(line, "Redis has lost ") }) // rightly, if a restart takes long
		if len(errors) != n+1 || !regexp.MustCompile(`^Redis does not work for us: .*(connection refused|EOF|connection reset|broken pipe)`).MatchString(errors[n]) {
			t.Fatalf("errors %q", errors)
		}
		over := slices.DeleteFunc(info, func(line string) bool { return strings.HasPrefix(line, "Job is ready") })
		if len(over) != n+1 || !regexp.MustCompile(`^Redis does not work for us: over after [0-9.]+m?s$`).MatchString(over[n]) {
			t.Fatalf("logged %q", over)
		}
	}
}

// A failure that several movers meet is logged once, and is over when the last of them is done with it.
func TestOutageOfSeveral(t *testing.T) {
	log := new(recorder)
	o := newOutages(slog.New(lines{log}))
	down := errors.New("connection refused")
	for _, step := range []struct {
		number int
		err    error
		over   bool
	}{{3, nil, false}, {1, down, false}, {2, down, false}, {2, down, false}, {3, nil, false}, {1, nil, false}, {1, nil, false}, {2, nil, true}, {1, nil, true}} {
		o.reportOf(step.number, "Redis", step.err)
		if info, _ := log.lines(); (len(info) == 1) != step.over {
			t.Errorf("after %+v: %q", step, info)
		}
	}
	log.expectErrors(t, "Redis: connection refused")
}

// Any handler gets IDs as text; a handler that needs no strings gets them as bytes. Without a logger, slog.Default is
// used.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	text := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	say := func(o Options) {
		log := serverOn(new(redis.Pool), 1, o).log
		logJobs(log, slog.LevelInfo, "ready", "t", store.IDs{[]byte("1"), []byte("2")})
		log.Log(t.Context(), levelRecovered, "over")
		log.Error("broken")
	}
	lines := new(recorder)
	say(Options{Logger: lines.logger()})
	info, errors := lines.lines()
	if len(info) != 2 || info[0] != "ready, Topic: t, IDs: [1,2]" || info[1] != "over" || len(errors) != 1 || errors[0] != "broken" {
		t.Errorf("lines %q, errors %q", info, errors)
	}
	say(Options{Logger: slog.New(text)})
	if got, want := out.String(), "level=INFO msg=ready topic=t ids=\"[1 2]\"\nlevel=INFO+2 msg=over\nlevel=ERROR msg=broken\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if (Options{}).withDefaults().Logger != slog.Default() {
		t.Error("without a logger, want slog.Default()")
	}
}
