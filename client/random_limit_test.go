package client_test

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
)

func pauseStep(r *modelRun) {
	topic := r.topic()
	var err error
	if r.later() {
		err = r.Pause(r.TB.Context(), topic, client.PauseOptions{For: pick(r.Rand, []time.Duration{0, time.Hour})})
	} else {
		err = r.Throttle(r.TB.Context(), topic, time.Hour)
	}
	r.note("pause "+topic, err, nil)
	r.model.held[topic] = true
	r.samePaused()
}

func resumeStep(r *modelRun) {
	topic := r.topic()
	was, err := r.Resume(r.TB.Context(), topic)
	r.note("resume "+topic, err, nil)
	r.same("  was", was, r.model.held[topic])
	delete(r.model.held, topic)
	r.samePaused()
}

func (r *modelRun) samePaused() {
	r.TB.Helper()
	all, err := r.Paused(r.TB.Context())
	check(r.TB, err)
	var topics []string
	for _, p := range all {
		topics = append(topics, p.Topic)
	}
	r.same("  paused", topics, slices.Sorted(maps.Keys(r.model.held)))
}

// limitStep limits a topic or removes its limit. The rates admit one job per day and partition after the burst, which
// means none during the run.
func limitStep(r *modelRun) {
	topic, l := r.topic(), client.Limit{}
	if r.IntN(4) > 0 {
		n := r.model.partitions
		if r.IntN(4) == 0 {
			l.Tag, n = "a", 1
		}
		what := 1 + r.IntN(3)
		if what&1 != 0 {
			l.Concurrency = n + r.IntN(n+1)
		}
		if what&2 != 0 {
			l.Rate, l.Burst = float64(n)/(24*3600), r.IntN(3*n+1)
		}
	}
	r.note(fmt.Sprintf("limit %s to %+v", topic, l), r.SetLimit(r.TB.Context(), topic, l), nil)
	r.model.limit(topic, l)
	_, of := r.stats(topic)
	r.same("  limit", of.Limit, l)
}

// extendedStep makes a job's slot look expired although its lease is valid, as if the lease had been extended since.
func extendedStep(r *modelRun) {
	id := r.id()
	if entry := r.model.pool[id]; entry.lease > 0 && !r.model.isDue(entry) {
		r.Do("ZADD", r.keys(id).Slots(r.model.jobs[id].topic), "XX", "1000000000.000123", id)
		r.note("extended long ago: "+id, nil, nil)
	}
}
