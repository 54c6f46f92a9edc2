package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// bury creates dead letters of a topic, one a second; the last one died this long ago.
func (w *world) bury(topic string, last time.Duration, ids ...string) {
	w.TB.Helper()
	for i, id := range ids {
		died := int64((w.Clock() - last.Seconds() - float64(len(ids)-1-i)) * 1000)
		w.Do("HSET", prefix+"dead_letter:"+id, "topic", topic, "body", "body")
		w.Do("ZADD", prefix+"dead_letters:"+topic, died, id)
		w.Do("ZADD", prefix+"dead_topics", "LT", died, topic)
	}
}

func letters(topic string, ids ...string) buckets {
	m := buckets{}
	for _, id := range ids {
		m[id] = topic + " body"
	}
	return m
}

// Dead letters are dropped when they are too old or too many, as the limits say at that time, and the log names them.
func TestDeadLettersAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bury("t", 14*24*time.Hour+time.Minute, "a", "b")
	w.bury("t", 14*24*time.Hour-time.Hour, "c")
	w.bury("t", 2*time.Hour, "d", "e", "f")
	for _, step := range []struct {
		change        func()
		left, dropped []string
	}{
		{func() {}, []string{"c", "d", "e", "f"}, []string{"a", "b"}}, // as a rule after 14 days
		{func() { w.server.SetDeadLimits(-1, 0) }, []string{"c", "d", "e", "f"}, nil},
		{func() { w.server.SetDeadLimits(-1, 2) }, []string{"e", "f"}, []string{"c", "d"}},
		{func() { w.server = serverOn(w.pool(), 1, Options{DeadMaxAge: -1, DeadMax: 1, Logger: w.log.logger()}) }, []string{"f"}, []string{"e"}},
		{func() { w.server.SetDeadLimits(time.Hour, 0) }, nil, []string{"f"}},
	} {
		before, _ := w.log.lines()
		step.change()
		check(t, w.server.Pass(t.Context()))
		want := redistest.State{}
		if step.left != nil {
			want = redistest.State{Dead: queues{"t": step.left}, Letters: letters("t", step.left...)}
		}
		w.Expect(want)
		info, _ := w.log.lines()
		var dropped []string
		for _, line := range info[len(before):] {
			if strings.Contains(line, "too old or too many, Topic: t, ") {
				dropped = append(dropped, idsOf(line)...)
			}
		}
		if !slices.Equal(dropped, step.dropped) {
			t.Errorf("the log says %q, want %q", dropped, step.dropped)
		}
	}
	w.log.expectErrors(t)
}
