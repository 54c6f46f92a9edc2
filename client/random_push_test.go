package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// job returns a new job with this ID and these options, and how to push it.
func (r *modelRun) job(id string, terms modelJob) (client.Item, modelJob, float64) {
	d := client.Item{Message: client.Message{ID: id, Topic: r.topic(), Body: fmt.Sprint(r.tick())}}
	due := r.model.now
	if r.IntN(3) == 0 {
		due = float64(int(r.model.now) + 4000 + 7*r.IntN(1000))
		d.At = time.Unix(int64(due), 0)
	}
	terms.topic, terms.body = d.Topic, d.Body
	return d, terms, due
}

var modelPolicies = []modelPolicy{
	{name: "replace", option: client.IfExists(client.Replace()), moves: true}, {name: "replace, unsaid"}, {name: "refuse", option: client.IfExists(client.Refuse()), refuse: true},
	{name: "keep earlier", option: client.IfExists(client.KeepEarlier()), earlier: true}, {name: "keep later", option: client.IfExists(client.KeepLater()), later: true},
	{name: "once", option: client.IfExists(client.Once(time.Hour)), once: true}, {name: "debounce", option: client.IfExists(client.Debounce(100 * 24 * time.Hour)), debounced: true},
	{name: "follow", option: client.IfExists(client.Follow()), follows: true}, {name: "follow", option: client.IfExists(client.Follow()), follows: true},
}

// pushOptions returns some options, their policy, and their effect on a job.
func (r *modelRun) pushOptions() (opts []client.PushOption, policy modelPolicy, terms modelJob) {
	policy = pick(r.Rand, modelPolicies)
	if policy.option != nil {
		opts = append(opts, policy.option)
	}
	if r.IntN(2) == 0 {
		terms.maxAttempts = 1 + r.IntN(3)
		opts = append(opts, client.JobOptions{MaxAttempts: terms.maxAttempts})
	}
	if r.IntN(3) == 0 {
		opts = append(opts, client.JobOptions{Lease: time.Hour})
	}
	terms.lifetime = store.DefaultLifetime
	if r.IntN(3) == 0 {
		terms.lifetime = time.Duration(1+r.IntN(100*60)) * time.Minute
		opts = append(opts, client.JobOptions{ExpireAfter: terms.lifetime})
	}
	return opts, policy, terms
}

func pushStep(r *modelRun) {
	opts, policy, terms := r.pushOptions()
	d, job, due := r.job(r.id(), terms)
	pushed, err := r.pushItem(d, opts...)
	should, want := r.model.push(d.ID, job, due, policy)
	r.note(fmt.Sprintf("push %v at %.0f, %v, %d attempts, for %v", d.Message, due, policy, terms.maxAttempts, terms.lifetime), err, want)
	r.same("  did", pushed.Outcome, should)
}

func pushBatchStep(r *modelRun) {
	ids := slices.Clone(modelIDs)
	r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	opts, policy, terms := r.pushOptions()
	var batch []client.Item
	ids = ids[:1+r.IntN(3)]
	want, jobs, dues := make([]client.Result, len(ids)), make([]modelJob, len(ids)), make([]float64, len(ids))
	for i, id := range ids {
		var d client.Item
		d, jobs[i], dues[i] = r.job(id, terms)
		batch = append(batch, d)
	}
	for i := range ids {
		did, err := r.model.push(ids[i], jobs[i], dues[i], policy)
		want[i] = client.Result{ID: ids[i], Err: err, Outcome: did}
	}
	results, _ := r.PushBatch(r.TB.Context(), batch, opts...)
	for i := range results {
		if errors.Is(results[i].Err, client.ErrOtherTopic) {
			results[i].Err = client.ErrOtherTopic
		}
	}
	r.same(fmt.Sprintf("push batch %v, %v, %d attempts, for %v", batch, policy, terms.maxAttempts, terms.lifetime), results, want)
}

func (r *modelRun) pushItem(d client.Item, opts ...client.PushOption) (client.Result, error) {
	if d.At.IsZero() {
		return r.Push(r.TB.Context(), d.Message, d.Delay, slices.Concat(d.Options, opts)...)
	}
	return r.PushAt(r.TB.Context(), d.Message, d.At, slices.Concat(d.Options, opts)...)
}

// pushBatchOrOne pushes the jobs, with Push if there is one.
func (r *modelRun) pushBatchOrOne(batch []client.Item) []client.Result {
	if len(batch) > 1 {
		results, _ := r.PushBatch(r.TB.Context(), batch)
		return results
	}
	result, err := r.pushItem(batch[0])
	if result.Err = err; errors.Is(err, client.ErrExists) {
		result.Err = client.ErrExists
	}
	return []client.Result{result}
}

// groupStep pushes to groups, in a batch or singly.
func groupStep(r *modelRun) {
	batch := make([]client.Item, 1+r.IntN(4))
	var tags []string
	var jobs []modelJob
	most, quiet := r.IntN(4), r.far()
	for i := range batch {
		d, job, _ := r.job("", modelJob{lifetime: store.DefaultLifetime})
		key := pick(r.Rand, []string{"k", "l"})
		if r.IntN(4) == 0 { // it is a large group
			job.body = `"` + d.Body + strings.Repeat("x", 16<<10) + `"`
			d.Body = job.body
		}
		d.At = time.Time{}
		d.Options = append(d.Options, client.Group{Key: key, Max: most, Quiet: quiet, Longest: 100 * 24 * time.Hour})
		if r.IntN(2) == 0 {
			d.ID = []string{"x", "y", "z", "{x}"}[i]
			d.Options = append(d.Options, client.IfExists(client.Once(time.Hour)))
		}
		if r.IntN(2) == 0 {
			job.maxAttempts = 1 + r.IntN(3)
			d.Options = append(d.Options, client.JobOptions{MaxAttempts: job.maxAttempts})
		}
		tag := store.GroupTag(d.Topic, key)
		batch[i], jobs, tags = d, append(jobs, job), append(tags, tag)
	}
	results := r.pushBatchOrOne(batch)
	var want []client.Result
	for i, d := range batch {
		if i == len(results) {
			break // the push has failed, which is reported below
		}
		id := results[i].ID
		did, err := r.model.group(tags[i], d.ID, id, jobs[i], most)
		switch did {
		case client.OutcomeCreated:
			if slices.Contains(r.groups, id) {
				r.TB.Errorf("a group has the ID of another one, %s", id)
			}
			r.groups = append(r.groups, id)
		case client.OutcomeAdded:
			id = r.model.groups[tags[i]]
			if most > 0 && id == "" {
				id = results[i].ID // the group is full now
			}
		}
		want = append(want, client.Result{ID: id, Err: err, Outcome: did})
	}
	r.same(fmt.Sprintf("push to groups %q: %v, %d at most", tags, batch, most), results, want)
	for _, tag := range tags {
		if entry, waits := r.model.pool[r.model.groups[tag]]; waits && entry == r.model.unlearnt() {
			r.learn(r.model.groups[tag], quiet)
		}
	}
}

func requeueStep(r *modelRun) {
	id := r.id()
	r.note("requeue "+id, r.Requeue(r.TB.Context(), id), r.model.requeue(id))
}

func dropDeadStep(r *modelRun) {
	if r.IntN(8) > 0 {
		return
	}
	topic, want := r.topic(), 0
	for id, letter := range r.model.letters {
		if letter.topic == topic {
			want++
			r.model.dropDead(id)
		}
	}
	dropped, err := r.DropAll(r.TB.Context(), topic)
	r.note("drop all of "+topic, err, nil)
	r.same("  dropped", dropped, want)
}

func removeStep(r *modelRun) {
	id, unlessReserved := r.id(), r.IntN(2) == 0
	remove := r.Remove
	if unlessReserved {
		remove = r.RemoveUnlessReserved
	}
	was, err := remove(r.TB.Context(), id)
	should, want := r.model.remove(id, unlessReserved)
	r.note(fmt.Sprint("remove ", id, ", unless it is reserved: ", unlessReserved), err, want)
	r.same("  was", was, should)
}

func rescheduleStep(r *modelRun) {
	id, later, delay := r.id(), r.later(), r.far()
	if !later {
		delay = 0
	}
	err := r.Reschedule(r.TB.Context(), id, delay)
	r.note(fmt.Sprint("reschedule ", id, " ", delay), err, r.model.reschedule(id, later))
	if err == nil && later {
		r.learn(id, delay)
	}
}

func getStep(r *modelRun) {
	id := r.id()
	job, err := r.Get(r.TB.Context(), id)
	want, exists := r.model.jobs[id]
	state := client.StateReady
	if entry, waits := r.model.pool[id]; waits && entry.lease > 0 {
		state = client.StateReserved
	} else if waits {
		state = client.StateWaiting
	}
	if !exists {
		if want, exists = r.model.letters[id]; !exists {
			r.note("get "+id, err, client.ErrNotFound)
			return
		}
		state = client.StateDead
	}
	r.note("get "+id, err, nil)
	r.same("  got", []any{job.State, job.Topic, job.Body, job.Attempts, job.Options.MaxAttempts, job.Followed},
		[]any{state, want.topic, want.body, want.attempts, want.maxAttempts, want.follower != nil})
}
