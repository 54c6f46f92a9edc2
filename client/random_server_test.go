package client_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

var oldSteps = []func(*modelRun){oldPushStep, oldPushStep, oldPopStep, oldRemoveStep, oldPassStep}

// timePassesStep makes a job overdue, or makes a lease end in the past.
func timePassesStep(r *modelRun) {
	id := r.id()
	entry, waits := r.model.pool[id]
	if !waits || r.model.isDue(entry) {
		return
	}
	entry.score = float64(1_000_000_000 + r.tick())
	if entry.lease > 0 {
		entry.score += 0.000123
	}
	r.model.pool[id] = entry
	r.Do("ZADD", r.keys(id).JobPool(), fmt.Sprintf("%.6f", entry.score), id)
	if entry.lease > 0 {
		r.Do("ZADD", r.keys(id).Slots(r.model.jobs[id].topic), "XX", fmt.Sprintf("%.6f", entry.score), id)
	}
	r.note("time passes for "+id, nil, nil)
}

// burstIsOverStep makes a burst of debounced pushes exceed its maximum duration.
func burstIsOverStep(r *modelRun) {
	id := r.id()
	if job := r.model.jobs[id]; job.burst > 0 {
		job.burst = 2
		r.model.jobs[id] = job
		r.Do("HSET", r.keys(id).JobBucket(id), "first", int64(r.model.now-200*24*3600)*1000)
		r.note("the burst of "+id+" is over", nil, nil)
	}
}

// onceIsOverStep ends the window in which pushes of an ID count once.
func onceIsOverStep(r *modelRun) {
	if len(r.model.once) == 0 {
		return
	}
	id := pick(r.Rand, slices.Sorted(maps.Keys(r.model.once)))
	delete(r.model.once, id)
	for _, s := range r.jobs.Stores {
		r.Do("ZREM", s.Keys().Once(), id)
	}
	r.note("a push of "+id+" counts again", nil, nil)
}

// passStep runs a pass of our server.
func passStep(r *modelRun) {
	r.fireStep()
	r.model.pass(true)
	err := r.serverPass()
	r.note("server", err, nil)
}

func (r *modelRun) serverPass() error {
	for _, s := range r.jobs.Stores {
		if err := r.serverPassOf(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *modelRun) serverPassOf(s *store.Store) error {
	found, err := s.Due(store.Query{Limit: 100}).Do(r.TB.Context())
	if err != nil {
		return err
	}
	for _, batch := range found.Batches {
		if moved, err := s.Move(batch, found.Now, found.Now, found.Now.Add(time.Hour)).Do(r.TB.Context()); err != nil || moved.PutBack > 0 {
			return fmt.Errorf("move: %v, %v", moved, err)
		}
	}
	if len(found.Orphans) > 0 {
		_, err = s.Drop(found.Orphans, found.Now, found.Now.Add(time.Hour)).Do(r.TB.Context())
	}
	return err
}

func oldPushStep(r *modelRun) {
	m := client.Message{ID: r.id(), Topic: r.topic(), Body: fmt.Sprint(r.tick())}
	delay := pick(r.Rand, []int{-1000, 3600 + r.IntN(3600)})
	r.old.push(m, delay, 604800)
	score, err := redis.Float64(r.Do("ZSCORE", "delayer:job_pool", m.ID), nil)
	r.note(fmt.Sprint("old push ", m, " ", delay), err, nil)
	r.model.oldPush(m.ID, m.Topic, m.Body, score, r.isAnew(m.ID))
}

// isAnew reports whether the job's bucket expires later than it did when it was reserved.
func (r *modelRun) isAnew(id string) bool {
	lease, _ := redis.String(r.Conn().Do("HGET", "delayer:job_bucket:"+id, "lease"))
	said := strings.Fields(lease)
	if len(said) < 4 {
		return false
	}
	expires, err := strconv.ParseFloat(said[3], 64)
	check(r.TB, err)
	ttl, err := redis.Int(r.Do("PTTL", "delayer:job_bucket:"+id), nil)
	check(r.TB, err)
	return r.Clock()*1000+float64(ttl) > expires+1000
}

func oldPopStep(r *modelRun) {
	topic := r.topic()
	m, err := r.old.pop(topic)
	id, got := r.model.oldPop(topic)
	switch {
	case got:
		r.note("old pop of "+topic, err, nil)
		r.same("  got", m.ID, id)
	case id != "":
		r.note("old pop of "+topic, err, errIncomplete)
	default:
		r.note("old pop of "+topic, err, redis.ErrNil)
	}
}

func oldRemoveStep(r *modelRun) {
	id := r.id()
	r.same("old remove "+id, r.old.remove(id), r.model.oldRemove(id))
}

func oldPassStep(r *modelRun) {
	r.old.oldServer(int64(r.model.now))
	r.model.pass(false)
	check(r.TB, errOf(r.jobs.Stores[0].KeepPaused("0").Do(r.TB.Context()))) // before a consumer gets a job that the pass has made ready
	r.note("old server", nil, nil)
}
