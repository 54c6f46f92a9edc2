package fsck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// writer makes calls, and keeps the model.
type writer struct {
	*rand.Rand
	t      *testing.T
	client *client.Client
	server *server.Server
	jobs   jobs
	leases []*client.Delivery
	serial int
}

func newWriter(t *testing.T, s *redistest.Server) *writer {
	pool := s.Pool()
	c := clienttest.On(pool)
	t.Cleanup(func() { c.Close() })
	return &writer{rand.New(rand.NewPCG(3, 4)), t, c, clienttest.Server(pool, server.Options{}), jobs{map[string][]string{}, map[string]string{}}, nil, 0}
}

var aofTopics = []string{"t", "paused", "limited"}

// any makes a call at random, and returns its name.
func (w *writer) any() string {
	ctx, topic := w.t.Context(), aofTopics[w.IntN(len(aofTopics))]
	id, delay := fmt.Sprint("id", w.IntN(40)), []time.Duration{0, time.Millisecond, time.Hour}[w.IntN(3)]
	w.serial++
	m := client.Message{ID: id, Topic: topic, Body: fmt.Sprint(w.serial)}
	switch w.IntN(16) {
	case 0, 1, 2, 3:
		return w.push(m, delay)
	case 4:
		var batch []client.Item
		for i := range 5 {
			of := m
			of.ID = fmt.Sprint(id, "-", i)
			batch = append(batch, client.Item{Message: of, Delay: delay})
			w.jobs.alive[of.ID] = []string{topic + " " + of.Body}
		}
		_, err := w.client.PushBatch(ctx, batch, client.IfExists(client.Replace()))
		redistest.Check(w.t, err)
		return "PushBatch"
	case 5:
		m.ID = ""
		pushed, err := w.client.Push(ctx, m, 0, client.Group{Key: "k", Max: 3, Longest: time.Hour})
		redistest.Check(w.t, err)
		if pushed.Outcome == client.OutcomeCreated {
			w.jobs.alive[pushed.ID] = []string{topic + " [" + m.Body + "]"}
		} else {
			w.jobs.alive[pushed.ID][0] = strings.TrimSuffix(w.jobs.alive[pushed.ID][0], "]") + "," + m.Body + "]"
		}
		return "push to a group"
	case 6, 7:
		redistest.Check(w.t, w.server.Pass(ctx))
		return "a pass"
	case 8, 9:
		list, err := w.client.Fetch(ctx, clienttest.Ready(topic, 1+w.IntN(3), time.Hour))
		if !errors.Is(err, client.ErrEmpty) {
			redistest.Check(w.t, err)
		}
		w.leases = append(w.leases, list...)
		return "Fetch"
	case 10, 11, 12:
		return w.settle()
	case 13:
		popped, err := w.client.Pop(ctx, topic)
		if !errors.Is(err, client.ErrEmpty) {
			redistest.Check(w.t, err)
			w.jobs.end(popped.ID)
		}
		return "Pop"
	case 14:
		return w.change(id, delay)
	}
	return w.operate()
}

func (w *writer) push(m client.Message, delay time.Duration) string {
	opts := map[string][]client.PushOption{
		"Push": nil, "Push with Replace": {client.IfExists(client.Replace())}, "Push with Refuse": {client.IfExists(client.Refuse())}, "Push with Once": {client.IfExists(client.Once(time.Hour))}, "Push with Follow": {client.IfExists(client.Follow())},
		"Push with MaxAttempts": {client.JobOptions{MaxAttempts: 1, Lease: time.Hour}},
	}
	name := slices.Sorted(maps.Keys(opts))[w.IntN(len(opts))]
	if name == "Push with MaxAttempts" { // other calls leave these alone: a lease that a Reschedule ends counts, so the next reserve would bury it
		m.ID = "last " + m.ID
	}
	pushed, err := w.client.Push(w.t.Context(), m, delay, opts[name]...)
	if pushed.Outcome == client.OutcomeRefused {
		return name
	}
	redistest.Check(w.t, err)
	next := m.Topic + " " + m.Body
	if pushed.Outcome == client.OutcomeFollowed {
		w.jobs.alive[m.ID] = []string{w.jobs.alive[m.ID][0], next}
	} else {
		w.jobs.alive[m.ID] = []string{next}
	}
	return name
}

// settle settles a job that was reserved.
func (w *writer) settle() string {
	if len(w.leases) == 0 {
		return "nothing"
	}
	i := w.IntN(len(w.leases))
	d := w.leases[i]
	w.leases = slices.Delete(w.leases, i, i+1)
	name, end := "Ack", d.Ack
	switch w.IntN(4) {
	case 0:
		name, end = "Retry", func(ctx context.Context) error { return d.Retry(ctx, time.Duration(w.IntN(2))*time.Hour, nil) }
	case 1:
		name, end = "Bury", func(ctx context.Context) error { return d.Bury(ctx, errors.New("no")) }
	}
	switch err := end(w.t.Context()); {
	case errors.Is(err, client.ErrLeaseLost):
	case errors.Is(err, client.ErrExhausted), err == nil && name == "Bury":
		w.jobs.bury(d.ID)
	default:
		redistest.Check(w.t, err)
		if name == "Ack" {
			w.jobs.end(d.ID)
		}
	}
	return name
}

// change removes, reschedules or requeues a job.
func (w *writer) change(id string, delay time.Duration) string {
	ctx := w.t.Context()
	switch w.IntN(3) {
	case 0:
		was, err := w.client.Remove(ctx, id)
		redistest.Check(w.t, err)
		if was != "" {
			delete(w.jobs.alive, id)
			delete(w.jobs.dead, id)
		}
		return "Remove"
	case 1:
		if err := w.client.Reschedule(ctx, id, delay); !errors.Is(err, client.ErrNotFound) {
			redistest.Check(w.t, err)
		}
		return "Reschedule"
	}
	if dead := slices.Sorted(maps.Keys(w.jobs.dead)); len(dead) > 0 {
		if err := w.client.Requeue(ctx, dead[0]); !errors.Is(err, client.ErrExists) {
			redistest.Check(w.t, err)
			w.jobs.alive[dead[0]] = []string{w.jobs.dead[dead[0]]}
			delete(w.jobs.dead, dead[0])
		}
	}
	return "Requeue"
}

// operate does what an operator does.
func (w *writer) operate() string {
	ctx := w.t.Context()
	switch w.IntN(4) {
	case 0:
		redistest.Check(w.t, w.client.Pause(ctx, "paused", client.PauseOptions{}))
		return "Pause"
	case 1:
		_, err := w.client.Resume(ctx, "paused")
		redistest.Check(w.t, err)
		return "Resume"
	case 2:
		redistest.Check(w.t, w.client.SetLimit(ctx, "limited", client.Limit{Concurrency: 1 + w.IntN(3)}))
		return "SetLimit"
	}
	_, err := w.client.Schedules().Set(ctx, client.Schedule{Name: "s", Every: time.Hour, Topic: "t", Body: "b"})
	redistest.Check(w.t, err)
	id, err := w.client.Schedules().Run(ctx, "s")
	redistest.Check(w.t, err)
	w.jobs.alive[id] = []string{"t b"}
	return "Run of a schedule"
}
