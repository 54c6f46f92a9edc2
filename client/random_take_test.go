package client_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

func popStep(r *modelRun) {
	topic, n := r.topic(), 1+r.IntN(3)
	var ids []string
	var err error
	if n == 1 {
		var m client.Message
		if m, err = r.Pop(r.TB.Context(), topic); err == nil {
			ids = append(ids, m.ID)
		}
	} else {
		var list []*client.Delivery
		list, err = r.Fetch(r.TB.Context(), clienttest.Popped(topic, n))
		ids = deliveryIDs(list)
	}
	want := r.model.pop(r.taking([]string{topic}, n, ids))
	r.note(fmt.Sprintf("pop %d of %s", n, topic), err, errEmptyIf(len(want) == 0))
	r.same("  got", ids, want)
}

func errEmptyIf(none bool) error {
	if none {
		return client.ErrEmpty
	}
	return nil
}

func reserveStep(r *modelRun) {
	topic, n := r.topic(), 1+r.IntN(3)
	lease := pick(r.Rand, []time.Duration{0, time.Hour})
	list, err := r.Fetch(r.TB.Context(), clienttest.Ready(topic, n, lease))
	want := r.model.reserve(r.taking([]string{topic}, n, deliveryIDs(list)), store.DefaultMaxAttempts)
	r.note(fmt.Sprintf("reserve %d of %s for %v", n, topic, lease), err, errEmptyIf(len(want) == 0))
	r.hold(list, want, store.DefaultMaxAttempts)
}

// fetch may wait, so it is called only if there is a job.
func fetchStep(r *modelRun) {
	topics, n, most := r.topics(), 1+r.IntN(3), r.IntN(4)-1
	if !slices.ContainsFunc(r.model.queuesOf(r.model.delivered(topics)), func(queue string) bool {
		topic, _, _ := strings.Cut(queue, " of ")
		return r.model.isOpen(queue) && slices.ContainsFunc(r.model.queues[queue], func(id string) bool { return r.isSimple(topic, id) })
	}) {
		return
	}
	o := client.FetchOptions{Max: n, Lease: time.Hour, MaxAttempts: most}
	for _, topic := range topics {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	o.Timeout = hangBound // if no job is found, the test fails with a log
	list, err := r.Fetch(r.TB.Context(), o)
	limit := map[int]int{-1: 0, 0: store.DefaultMaxAttempts, 1: 1, 2: 2}[most]
	want := r.model.reserve(r.taking(topics, n, deliveryIDs(list)), limit)
	r.note(fmt.Sprintf("fetch %d of %v, %d attempts", n, topics, most), err, nil)
	r.hold(list, want, limit)
}

// isSimple reports whether the entry belongs to a job that any consumer may reserve.
func (r *modelRun) isSimple(topic, id string) bool {
	_, waits := r.model.pool[id]
	job, exists := r.model.jobs[id]
	return exists && !waits && job.topic == topic && job.attempts == 0
}

func (r *modelRun) hold(list []*client.Delivery, want []string, limit int) {
	r.TB.Helper()
	ids := make([]string, 0, len(list))
	for _, d := range list {
		ids = append(ids, d.ID)
		job := r.model.jobs[d.ID]
		if d.Attempt != job.attempts || d.MaxAttempts != cmp.Or(job.maxAttempts, limit) || d.Topic != job.topic || d.Body != job.body {
			r.TB.Errorf("delivered %+v, want %+v", d, job)
		}
		r.learn(d.ID, d.Lease())
		r.holds = append(r.holds, &modelHold{Delivery: d, lease: r.model.pool[d.ID].lease, limit: limit})
	}
	r.same("  got", ids, want)
	r.learnDead()
}

// settle makes the same call on the model and on a Delivery.
func (r *modelRun) settle(what string, model func(h *modelHold) error, do func(h *modelHold) error) {
	r.TB.Helper()
	if len(r.holds) == 0 {
		return
	}
	h := pick(r.Rand, r.holds)
	want := error(client.ErrLeaseLost)
	if !h.settled {
		want = model(h)
	}
	h.settled = true
	if h.limit == 0 && r.IntN(2) == 0 { // by another program, which knows no limit of the consumer's
		elsewhere := *h
		elsewhere.Delivery = r.Client.Delivery(h.Topic, h.ID, h.Token)
		h, what = &elsewhere, what+" elsewhere"
	}
	r.note(fmt.Sprintf("%s %s, lease %d", what, h.ID, h.lease), do(h), want)
	r.learnDead()
}

func ackStep(r *modelRun) {
	r.settle("ack", func(h *modelHold) error { return r.model.ack(h.Topic, h.ID, h.lease) },
		func(h *modelHold) error { return h.Ack(r.TB.Context()) })
}

func retryStep(r *modelRun) {
	later, delay := r.later(), r.far()
	if !later {
		delay = 0
	}
	r.settle(fmt.Sprint("retry in ", delay, " of "), func(h *modelHold) error { return r.model.retry(h.Topic, h.ID, h.lease, h.limit, later) },
		func(h *modelHold) error {
			err := h.Retry(r.TB.Context(), delay, errors.New("failed"))
			if err == nil && later {
				r.learn(h.ID, delay)
			}
			return err
		})
}

func releaseStep(r *modelRun) {
	later, delay := r.later(), r.far()
	r.settle(fmt.Sprint("release of, postponed ", later), func(h *modelHold) error { return r.model.release(h.Topic, h.ID, h.lease, later) },
		func(h *modelHold) error {
			if !later {
				return h.Release(r.TB.Context(), 0)
			}
			err := h.Release(r.TB.Context(), delay)
			if err == nil {
				r.learn(h.ID, delay)
			}
			return err
		})
}

func buryStep(r *modelRun) {
	r.settle("bury", func(h *modelHold) error {
		return r.model.settle(h.Topic, h.ID, h.lease, func() error { r.model.bury(h.ID); return nil })
	}, func(h *modelHold) error { return h.Bury(r.TB.Context(), errors.New("why")) })
}

func extendStep(r *modelRun) {
	if len(r.holds) == 0 {
		return
	}
	h, lease := pick(r.Rand, r.holds), r.far()
	var want error
	if _, exists := r.model.jobs[h.ID]; !exists || !r.model.isHeld(h.ID, h.lease) {
		want = client.ErrLeaseLost
	}
	err := h.Extend(r.TB.Context(), lease)
	r.note(fmt.Sprintf("extend %s, lease %d", h.ID, h.lease), err, want)
	if err == nil {
		r.learn(h.ID, lease)
	}
}

func ackBatchStep(r *modelRun) {
	var list []*client.Delivery
	var want []client.Result
	for _, h := range r.holds {
		if r.IntN(2) == 0 {
			continue
		}
		result := client.Result{ID: h.ID, Err: client.ErrLeaseLost}
		if !h.settled {
			result.Err = r.model.ack(h.Topic, h.ID, h.lease)
		}
		h.settled = true
		list, want = append(list, h.Delivery), append(want, result)
	}
	if len(list) == 0 {
		return
	}
	results, _ := r.AckBatch(r.TB.Context(), list)
	for i, result := range results {
		if errors.Is(result.Err, client.ErrLeaseLost) {
			results[i].Err = client.ErrLeaseLost
		}
	}
	r.same("ack batch", results, want)
}
