package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// stage is the part of Redis where a script or promise is tried. It has its own prefix.
type stage struct {
	*witness
	*client.Client
	*run
	prefix string
	// store is a partition that the Client does not use.
	store *store.Store
}

// patience bounds the trial of one script or promise.
const patience = redistest.HangBound / 2

func (r *run) newStage(w *witness) *stage {
	r.stages++
	prefix := fmt.Sprintf("%s%d:", r.prefix, r.stages)
	s := &stage{witness: w, run: r, prefix: prefix, store: store.New(r.pool, prefix+"{store}:")}
	s.Client = s.another()
	return s
}

// another returns another Client on the same jobs.
func (s *stage) another() *client.Client { return s.divided(s.layout()) }

// layout returns the layout in the URL.
func (s *stage) layout() fleet.Layout {
	return fleet.Layout{Partitions: s.redis.Partitions, Previous: s.redis.PreviousPartitions}
}

// divided returns a Client with that layout.
func (s *stage) divided(l fleet.Layout) *client.Client {
	c := client.New(s.pool, client.WithPrefix(s.prefix), client.WithPartitions(l.Partitions), client.WithPreviousPartitions(l.Previous))
	s.Cleanup(func() {
		if err := c.Close(); err != nil {
			s.Error(err)
		}
	})
	return c
}

// serve runs a server until the stage ends.
func (s *stage) serve(o server.Options) {
	s.Helper()
	redistest.Background(s.witness, s.newServer(s.layout(), o).Run)
}

func (s *stage) newServer(l fleet.Layout, o server.Options) *server.Server {
	o.Prefix, o.Partitions, o.PreviousPartitions, o.Logger = s.prefix, l.Partitions, l.Previous, slog.New(serverLog{s.witness})
	return server.New(s.pool, o)
}

// serverLog is a server's log that keeps only failures.
type serverLog struct{ *witness }

func (serverLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (l serverLog) Handle(_ context.Context, r slog.Record) error {
	l.Log(l.keep(&l.server, r.Message))
	return nil
}

func (l serverLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l serverLog) WithGroup(string) slog.Handler      { return l }

func (s *stage) inspector() *inspect.Inspector {
	return inspect.New(s.pool, s.prefix, s.layout())
}

// push stores a job with the given ID and a default body.
func (s *stage) push(id, topic string, delay time.Duration, opts ...client.PushOption) {
	s.Helper()
	_, err := s.Push(s.Context(), client.Message{ID: id, Topic: topic, Body: "body of " + id}, delay, opts...)
	check(s, err)
}

// expectState checks the job's state; "" means that there is no job.
func (s *stage) expectState(id string, want client.State) client.Job {
	s.Helper()
	job, err := s.Get(s.Context(), id)
	if want == "" {
		expectError(s, err, client.ErrNotFound)
	} else if check(s, err); job.State != want {
		s.Fatalf("%s is %s, want %s", id, job.State, want)
	}
	return job
}

// reserve reserves the topic's next job and checks its ID and attempt.
func (s *stage) reserve(topic, id string, attempt int, lease time.Duration) *client.Delivery {
	s.Helper()
	d, err := s.Reserve(s.Context(), patience, lease, topic)
	check(s, err)
	if d.ID != id || d.Attempt != attempt {
		s.Fatalf("reserved %s in attempt %d, want %s in attempt %d", d.ID, d.Attempt, id, attempt)
	}
	return d
}

// witness is a test that records its first failure or the reason for skipping.
type witness struct {
	testing.TB
	ctx context.Context

	mu           sync.Mutex
	said, server string // by the test and by a server's log
}

// Context is done when the trial times out or is interrupted.
func (w *witness) Context() context.Context { return w.ctx }

func (w *witness) keep(first *string, text string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if *first == "" {
		*first = strings.Join(strings.Fields(text), " ")
	}
	return text
}

// why returns what was recorded.
func (w *witness) why() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.server != "" {
		return w.said + " (the server: " + w.server + ")"
	}
	return w.said
}

func (w *witness) say(args ...any) string { return w.keep(&w.said, fmt.Sprint(args...)) }
func (w *witness) sayf(text string, args ...any) string {
	return w.keep(&w.said, fmt.Sprintf(text, args...))
}
func (w *witness) Error(args ...any)               { w.Helper(); w.TB.Error(w.say(args...)) }
func (w *witness) Fatal(args ...any)               { w.Helper(); w.TB.Fatal(w.say(args...)) }
func (w *witness) Skip(args ...any)                { w.Helper(); w.TB.Skip(w.say(args...)) }
func (w *witness) Errorf(text string, args ...any) { w.Helper(); w.TB.Error(w.sayf(text, args...)) }
func (w *witness) Fatalf(text string, args ...any) { w.Helper(); w.TB.Fatal(w.sayf(text, args...)) }
