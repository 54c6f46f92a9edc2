package server

import (
	"fmt"
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

func letters(topic string, ids ...string) map[string]string {
	m := map[string]string{}
	for _, id := range ids {
		m[id] = topic + " body"
	}
	return m
}

// Dead letters are dropped when they are too old or too many, and the log names them.
func TestDeadLettersAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name    string
		options Options
		bury    func()
		want    redistest.State
		dropped map[string][]string // by topic
	}{
		{
			name: "as a rule after 14 days",
			bury: func() {
				w.bury("t", 14*24*time.Hour+time.Minute, "a", "b")
				w.bury("u", 14*24*time.Hour-time.Hour, "c")
			},
			want:    redistest.State{Dead: queues{"u": {"c"}}, Letters: letters("u", "c")},
			dropped: map[string][]string{"t": {"a", "b"}},
		},
		{
			name: "the old ones of a topic", options: Options{DeadMaxAge: time.Hour},
			bury: func() {
				w.bury("t", 2*time.Hour, "a", "b")
				w.bury("t", time.Minute, "c")
			},
			want:    redistest.State{Dead: queues{"t": {"c"}}, Letters: letters("t", "c")},
			dropped: map[string][]string{"t": {"a", "b"}},
		},
		{
			name: "never", options: Options{DeadMaxAge: -1},
			bury: func() { w.bury("t", 1000*24*time.Hour, "a") },
			want: redistest.State{Dead: queues{"t": {"a"}}, Letters: letters("t", "a")},
		},
		{
			name: "too many", options: Options{DeadMaxAge: -1, DeadMax: 2},
			bury: func() {
				w.bury("t", time.Hour, "a", "b", "c", "d")
				w.bury("u", time.Hour, "e")
			},
			want:    redistest.State{Dead: queues{"t": {"c", "d"}, "u": {"e"}}, Letters: map[string]string{"c": "t body", "d": "t body", "e": "u body"}},
			dropped: map[string][]string{"t": {"a", "b"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.TB = t
			w.Do("FLUSHALL")
			w.log = new(recorder)
			c.options.Logger = w.log.logger()
			w.server = New(w.pool(), c.options)
			c.bury()
			check(t, w.server.Pass(t.Context()))
			w.Expect(c.want)
			info, errors := w.log.lines()
			got := map[string][]string{}
			for _, line := range info {
				_, rest, _ := strings.Cut(line, "too old or too many, Topic: ")
				topic, _, _ := strings.Cut(rest, ", ")
				got[topic] = append(got[topic], idsOf(line)...)
			}
			if fmt.Sprint(got) != fmt.Sprint(c.dropped) || len(errors) > 0 {
				t.Errorf("the log says %v, errors %q, want %v", got, errors, c.dropped)
			}
		})
	}
}

// The limits can change while the server runs.
func TestSetDeadLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = New(w.pool(), Options{DeadMaxAge: -1})
	w.bury("t", 2*time.Hour, "a", "b", "c")
	for _, step := range []struct {
		age  time.Duration
		most int
		left []string
	}{
		{-1, 0, []string{"a", "b", "c"}},
		{-1, 1, []string{"c"}},
		{time.Hour, 0, nil},
	} {
		w.server.SetDeadLimits(step.age, step.most)
		check(t, w.server.Pass(t.Context()))
		want := redistest.State{}
		if step.left != nil {
			want = redistest.State{Dead: queues{"t": step.left}, Letters: letters("t", step.left...)}
		}
		w.Expect(want)
	}
}
