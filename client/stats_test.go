package client_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// stats returns Stats and the numbers of this topic.
func (f *fixture) stats(topic string) (s client.Stats, of client.TopicStats) {
	f.TB.Helper()
	s, err := f.Stats(f.TB.Context())
	check(f.TB, err)
	for _, t := range s.Topics {
		if t.Topic == topic {
			of = t
		}
	}
	return s, of
}

// The numbers count the jobs in each state.
func TestStats(t *testing.T) {
	f := start(t, undivided)
	if s, _ := f.stats("t"); s.Waiting != 0 || len(s.Topics) != 0 {
		t.Errorf("of an empty Redis: %+v", s)
	}
	check(t, errOf(f.PushBatch(t.Context(), jobs(0, 6, "t", 0))))
	check(t, errOf(f.PushBatch(t.Context(), jobs(6, 2, "t", time.Hour))))
	check(t, f.reserve("t").Bury(t.Context(), errors.New("bad")))
	check(t, f.reserve("t").Ack(t.Context()))
	check(t, f.reserve("t").Retry(t.Context(), time.Hour, nil))
	f.reserve("t")
	f.push("a", "u")
	s, of := f.stats("t")
	if want := (client.TopicStats{Topic: "t", Ready: 2, Reserved: 1, Dead: 1}); of != want || s.Waiting != 3 || len(s.Topics) != 2 {
		t.Errorf("got %+v, want %+v and 3 that wait", s, want)
	}
}

// Schedules count as waiting, but their topic is not listed.
func TestStatsOfSchedules(t *testing.T) {
	f := start(t)
	f.serve()
	check(t, errOf(f.Schedules().Set(t.Context(), client.Schedule{Name: "tick", Every: 50 * time.Millisecond, Topic: "t", Body: "b"})))
	until(t, "it has fired", func() bool { return f.scheduled("tick").Jobs > 1 })
	if s, of := f.stats("t"); len(s.Topics) != 1 || of.Ready == 0 {
		t.Errorf("%+v, want topic t alone", s)
	}
}

// A broken key, or a number that drifts, affects no other number.
func TestStatsOfBrokenKeys(t *testing.T) {
	f := start(t, undivided)
	f.push("a", "good")
	f.push("b", "broken")
	f.Do("DEL", "delayer:ready_queue:broken")
	f.Do("SET", "delayer:ready_queue:broken", "x")
	f.Do("SET", "delayer:dead_letters:broken", "x")
	f.Do("HSET", "delayer:reserved", "good", -3)
	s, _ := f.stats("")
	want := []client.TopicStats{{Topic: "broken", Ready: -1, Dead: -1}, {Topic: "good", Ready: 1}}
	if !slices.Equal(s.Topics, want) || s.Waiting != 0 {
		t.Errorf("%+v, want %+v", s, want)
	}
	f.Do("HSET", "delayer:reserved", "good", 7) // more than the pool has
	if s, got := f.stats("good"); s.Waiting != 0 || got.Reserved != 7 {
		t.Errorf("%+v, %+v", s, got)
	}
	f.Do("SET", "delayer:topics", "x")
	_, err := f.Stats(t.Context())
	expectText(t, "Stats", err, "delayer: stats: ", "WRONGTYPE")
}
