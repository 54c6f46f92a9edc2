package client_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var (
	modelRuns  = flag.Int("model.runs", 0, "how many runs TestModel makes: 1200 if it is 0, or 200 in the short set")
	modelSteps = flag.Int("model.steps", 30, "how many operations each of them has")
	modelSeed  = flag.Uint64("model.seed", 0, "the one run to make, if it is not 0")
)

// Random operations of new and old clients and servers leave exactly the data in Redis that a small model predicts, and
// return the results that it predicts. In runs without old programs each job is in exactly one state at any time. (Old
// programs leave stale entries behind and do not count reserved jobs.) Other runs have five partitions, which old
// programs do not know.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		startPartitions(t, partitionsOf(*modelSeed)).runAgainstModel(*modelSeed)
		return
	}
	base, runs := rand.Uint64()>>1<<1, uint64(cmp.Or(*modelRuns, rounds(1200, 200)))
	for part := range uint64(2) {
		t.Run(fmt.Sprint(partitionsOf(part)), func(t *testing.T) {
			t.Parallel()
			f := startPartitions(t, partitionsOf(part))
			for run := part; run < runs && !t.Failed(); run += 2 {
				f.runAgainstModel(base + run)
			}
		})
	}
}

// partitionsOf returns the number of partitions of the run with that seed.
func partitionsOf(seed uint64) int { return []int{1, 5}[seed%2] }

// startPartitions is start for a Client with this many partitions.
func startPartitions(t testing.TB, n int) *fixture {
	t.Helper()
	needs := []redistest.Need{redistest.InPartitions(n)}
	if !redistest.Clustered {
		needs = append(needs, alone) // the old client has the original's keys
	}
	return &fixture{Server: redistest.Open(t, needs...)}
}

// modelHold is a job that a consumer has reserved.
type modelHold struct {
	*client.Delivery
	lease   int
	limit   int // the consumer's maximum number of attempts
	settled bool
}

// modelRun is a run with its operations, new and old, and its model.
type modelRun struct {
	*fixture
	*rand.Rand
	model *model
	jobs  *fleet.Fleet // runs a server's passes
	old   *oldClient
	holds []*modelHold
	ticks int // makes times differ
	// groups has the IDs of some groups.
	groups []string
	log    []string
}

func (f *fixture) runAgainstModel(seed uint64) {
	f.TB.Helper()
	f.Flush()
	pool := f.Pool()
	defer pool.Close()
	c := client.New(pool, f.options()...) // other Clients have not noticed that Redis was emptied
	defer c.Close()
	r := &modelRun{fixture: &fixture{c, f.Server}, Rand: rand.New(rand.NewPCG(seed, 0)), model: newModel(f.Clock(), f.Partitions)}
	r.jobs = fleet.Layout{Partitions: f.Partitions}.Open(pool, f.Prefix)
	r.old = &oldClient{f.TB, f.Conn()}
	oldOnes := f.Partitions == 1 && !f.Clustered && r.IntN(2) == 0
	for step := 0; step < *modelSteps && !f.TB.Failed(); step++ {
		if oldOnes && r.IntN(4) == 0 {
			pick(r.Rand, oldSteps)(r)
		} else {
			pick(r.Rand, newSteps)(r)
		}
		if r.IntN(5) == 0 {
			r.compare(!oldOnes)
		}
	}
	if !f.TB.Failed() {
		r.compare(!oldOnes)
	}
	for id, left := range f.Lifetimes() {
		if least := r.model.leastLifetime(id); left < least {
			f.TB.Errorf("job %s is kept for %v, want %v at least", id, left, least)
		}
	}
	if f.TB.Failed() {
		f.TB.Fatalf("go test ./client -run TestModel -model.seed %d -model.steps %d\n%s", seed, *modelSteps, strings.Join(r.log, "\n"))
	}
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// compare compares Redis with the model.
func (r *modelRun) compare(strict bool) {
	r.TB.Helper()
	r.forgetSlots()
	want := r.model.state()
	r.Expect(want)
	if strict { // Redis is as predicted, or the test has failed
		r.inOneState(want)
	}
	if r.TB.Failed() {
		r.log = append(r.log, "  <- here")
	}
}

// inOneState checks that each job is waiting, ready or reserved, and only once.
func (r *modelRun) inOneState(s state) {
	r.TB.Helper()
	places := map[string]int{}
	for _, ids := range slices.AppendSeq(slices.AppendSeq([][]string{s.Pool, s.Reserved}, maps.Values(s.Ready)), maps.Values(s.Paused)) {
		for _, id := range ids {
			places[id]++
		}
	}
	for id := range s.Buckets {
		if places[id] != 1 {
			r.TB.Errorf("job %s is in %d states", id, places[id])
		}
		delete(places, id)
	}
	if len(places) > 0 {
		r.TB.Errorf("entries without jobs: %v", places)
	}
}

// note records an operation and checks that its error is of the wanted kind, or nil.
func (r *modelRun) note(what string, err, want error) {
	r.TB.Helper()
	r.log = append(r.log, fmt.Sprintf("%s: %v", what, err))
	if want == nil && err != nil || !errors.Is(err, want) {
		r.TB.Errorf("%s: error %v, want %v", what, err, want)
	}
}

// same records a result and checks that it is the wanted one.
func (r *modelRun) same(what string, got, want any) {
	r.TB.Helper()
	r.log = append(r.log, fmt.Sprintf("%s: %v", what, got))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		r.TB.Errorf("%s: %v, want %v", what, got, want)
	}
}

// modelIDs belong to the partitions 1, 4, 1, 3 and 0 of five.
var modelIDs = []string{"a", "b", "{a}c", "}d{}", "{e"}

// id returns one of the modelIDs or the ID of a group.
func (r *modelRun) id() string {
	if len(r.groups) > 0 && r.IntN(4) == 0 {
		return pick(r.Rand, r.groups[max(len(r.groups)-3, 0):])
	}
	return pick(r.Rand, modelIDs)
}

func (r *modelRun) topic() string { return pick(r.Rand, []string{"t", "t", "u"}) }
func (r *modelRun) later() bool   { return r.IntN(2) == 0 }

func (r *modelRun) topics() []string {
	if r.IntN(2) == 0 {
		return []string{r.topic()}
	}
	return pick(r.Rand, [][]string{{"t", "u"}, {"u", "t"}})
}

// keys returns the keys of the partition that has the job.
func (r *modelRun) keys(id string) store.Keys {
	return r.jobs.Of(id).Keys()
}

// taking returns the call that took these jobs.
func (r *modelRun) taking(topics []string, n int, got []string) taking {
	isDead := func(id string) bool {
		job, exists := r.model.jobs[id]
		body, _ := redis.String(r.Do("HGET", r.keys(id).DeadLetter(id), "body"), nil)
		if !exists || body != job.body {
			return false
		}
		// All jobs of a schedule have the same body, so the letter may be that of an earlier job.
		died, err := redis.Float64(r.Do("ZSCORE", r.keys(id).DeadLetters(job.topic), id), nil)
		was, known := r.model.died[id]
		return err == nil && (!known || died != was)
	}
	return taking{topics: topics, n: n, got: got, isDead: isDead}
}

func (r *modelRun) tick() int { r.ticks++; return r.ticks }

// learn records a time that was set by Redis's clock. It must be close to the expected time.
func (r *modelRun) learn(id string, in time.Duration) {
	r.TB.Helper()
	entry, waits := r.model.pool[id]
	if !waits {
		return
	}
	score, err := redis.Float64(r.Do("ZSCORE", r.keys(id).JobPool(), id), nil)
	check(r.TB, err)
	if off := score - r.model.now - in.Seconds(); off < 0 || off > 300 {
		r.TB.Errorf("job %s is due %v s too late", id, off)
	}
	entry.score = score
	r.model.pool[id] = entry
}

// learnDead records the times at which jobs were buried.
func (r *modelRun) learnDead() {
	r.TB.Helper()
	for id, at := range r.model.died {
		if at == 0 {
			for _, s := range r.jobs.Stores {
				score, err := redis.Float64(r.Do("ZSCORE", s.Keys().DeadLetters(r.model.letters[id].topic), id), nil)
				if err == nil {
					r.model.died[id] = max(r.model.died[id], score)
				}
			}
			if r.model.died[id] == 0 {
				r.TB.Errorf("there is no dead letter %s", id)
			}
		}
	}
}

// far returns a delay of 1 to 2 h, a different one each time.
func (r *modelRun) far() time.Duration {
	return time.Hour + time.Duration(r.IntN(3600))*time.Second + time.Duration(r.tick())*time.Millisecond
}

// job returns a new job with this ID and these options, and how to push it.
func (r *modelRun) job(id string, terms modelJob) (client.Delayed, modelJob, float64) {
	d := client.Delayed{Message: client.Message{ID: id, Topic: r.topic(), Body: fmt.Sprint(r.tick())}}
	due := r.model.now
	if r.IntN(3) == 0 {
		due = float64(int(r.model.now) + 4000 + 7*r.IntN(1000))
		d.At = time.Unix(int64(due), 0)
	}
	terms.topic, terms.body = d.Topic, d.Body
	return d, terms, due
}

var modelPolicies = []modelPolicy{
	{name: "replace", option: client.Replace}, {name: "replace, unsaid"}, {name: "refuse", option: client.Refuse, refuse: true},
	{name: "keep earlier", option: client.KeepEarlier, earlier: true}, {name: "keep later", option: client.KeepLater, later: true},
	{name: "once", option: client.Once(time.Hour), once: true}, {name: "debounce", option: client.Debounce(100 * 24 * time.Hour), debounced: true},
	{name: "follow", option: client.Follow, follows: true}, {name: "follow", option: client.Follow, follows: true},
}

// pushOptions returns some options, their policy, and their effect on a job.
func (r *modelRun) pushOptions() (opts []client.PushOption, policy modelPolicy, terms modelJob) {
	policy = pick(r.Rand, modelPolicies)
	if policy.option != nil {
		opts = append(opts, policy.option)
	}
	if r.IntN(2) == 0 {
		terms.maxAttempts = 1 + r.IntN(3)
		opts = append(opts, client.MaxAttempts(terms.maxAttempts))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, client.TTR(time.Hour))
	}
	terms.lifetime = client.DefaultReadyMaxLifetime
	if r.IntN(3) == 0 {
		terms.lifetime = time.Duration(1+r.IntN(100*60)) * time.Minute
		opts = append(opts, client.ReadyMaxLifetime(terms.lifetime))
	}
	return opts, policy, terms
}

var newSteps = []func(*modelRun){
	pushStep, pushStep, pushBatchStep, popStep, reserveStep, reserveStep, fetchStep, timePassesStep, timePassesStep, passStep, passStep, passStep,
	ackStep, retryStep, retryStep, releaseStep, extendStep, buryStep, ackBatchStep, requeueStep, removeStep, rescheduleStep, dropDeadStep, getStep,
	burstIsOverStep, onceIsOverStep, scheduleStep, scheduleStep, unscheduleStep, pauseScheduleStep, runNowStep, scheduleIsDueStep, scheduleIsDueStep,
	pauseStep, resumeStep, resumeStep, groupStep, groupStep, groupStep, limitStep, limitStep, limitStep, extendedStep,
}

func pauseStep(r *modelRun) {
	topic := r.topic()
	var err error
	if r.later() {
		err = r.Pause(r.TB.Context(), topic, client.PauseOptions{For: pick(r.Rand, []time.Duration{0, time.Hour})})
	} else {
		err = r.BackOff(r.TB.Context(), topic, time.Hour)
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
	kept, err := r.Limit(r.TB.Context(), topic)
	check(r.TB, err)
	r.same("  limit", kept, l)
}

// extendedStep makes a job's slot look expired although its lease is valid, as if the lease had been extended since.
func extendedStep(r *modelRun) {
	id := r.id()
	if entry := r.model.pool[id]; entry.lease > 0 && !r.model.isDue(entry) {
		r.Do("ZADD", r.keys(id).Slots(r.model.jobs[id].topic), "XX", "1000000000.000123", id)
		r.note("extended long ago: "+id, nil, nil)
	}
}

var oldSteps = []func(*modelRun){oldPushStep, oldPushStep, oldPopStep, oldRemoveStep, oldPassStep}

func pushStep(r *modelRun) {
	opts, policy, terms := r.pushOptions()
	d, job, due := r.job(r.id(), terms)
	pushed, err := r.PushOne(r.TB.Context(), d, opts...)
	should, want := r.model.push(d.ID, job, due, policy)
	r.note(fmt.Sprintf("push %v at %.0f, %v, %d attempts, for %v", d.Message, due, policy, terms.maxAttempts, terms.lifetime), err, want)
	r.same("  did", pushed.Outcome, should)
}

func pushBatchStep(r *modelRun) {
	ids := slices.Clone(modelIDs)
	r.Shuffle(len(ids), func(i, k int) { ids[i], ids[k] = ids[k], ids[i] })
	opts, policy, terms := r.pushOptions()
	var batch []client.Delayed
	ids = ids[:1+r.IntN(3)]
	want, jobs, dues := make([]client.Result, len(ids)), make([]modelJob, len(ids)), make([]float64, len(ids))
	for i, id := range ids {
		var d client.Delayed
		d, jobs[i], dues[i] = r.job(id, terms)
		batch = append(batch, d)
	}
	for i := range ids {
		did, err := r.model.push(ids[i], jobs[i], dues[i], policy)
		want[i] = client.Result{ID: ids[i], Err: err, Outcome: did}
	}
	results, _ := r.PushBatch(r.TB.Context(), batch, opts...)
	r.same(fmt.Sprintf("push batch %v, %v, %d attempts, for %v", batch, policy, terms.maxAttempts, terms.lifetime), results, want)
}

// groupStep pushes to groups, in a batch or singly.
func groupStep(r *modelRun) {
	batch := make([]client.Delayed, 1+r.IntN(4))
	var tags []string
	var jobs []modelJob
	most, quiet := r.IntN(4), r.far()
	for i := range batch {
		d, job, _ := r.job("", modelJob{lifetime: client.DefaultReadyMaxLifetime})
		key := pick(r.Rand, []string{"k", "l"})
		if r.IntN(4) == 0 { // it is a large group
			job.body = `"` + d.Body + strings.Repeat("x", 16<<10) + `"`
			d.Body = job.body
		}
		d.At = time.Time{}
		d.Options = append(d.Options, client.Group(key, client.GroupOptions{Max: most, Quiet: quiet, Longest: 100 * 24 * time.Hour}))
		if r.IntN(2) == 0 {
			d.ID = []string{"x", "y", "z", "{x}"}[i]
			d.Options = append(d.Options, client.Once(time.Hour))
		}
		if r.IntN(2) == 0 {
			job.maxAttempts = 1 + r.IntN(3)
			d.Options = append(d.Options, client.MaxAttempts(job.maxAttempts))
		}
		tag := store.GroupTag(d.Topic, key)
		batch[i], jobs, tags = d, append(jobs, job), append(tags, tag)
	}
	var results []client.Result
	if len(batch) == 1 {
		result, _ := r.PushOne(r.TB.Context(), batch[0])
		if errors.Is(result.Err, client.ErrExists) {
			result.Err = client.ErrExists
		}
		results = append(results, result)
	} else {
		results, _ = r.PushBatch(r.TB.Context(), batch)
	}
	var want []client.Result
	for i, d := range batch {
		if i == len(results) {
			break // the push has failed, which is reported below
		}
		id := results[i].ID
		did, err := r.model.group(tags[i], d.ID, id, jobs[i], most)
		switch did {
		case client.Created:
			if slices.Contains(r.groups, id) {
				r.TB.Errorf("a group has the ID of another one, %s", id)
			}
			r.groups = append(r.groups, id)
		case client.Added:
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

func popStep(r *modelRun) {
	topic, n := r.topic(), 1+r.IntN(3)
	var messages []client.Message
	var err error
	if n == 1 {
		var m client.Message
		if m, err = r.Pop(r.TB.Context(), topic); err == nil {
			messages = append(messages, m)
		}
	} else {
		messages, err = r.PopBatch(r.TB.Context(), topic, n)
	}
	want := r.model.pop(r.taking([]string{topic}, n, messageIDs(messages)))
	r.note(fmt.Sprintf("pop %d of %s", n, topic), err, errEmptyIf(len(want) == 0))
	r.same("  got", messageIDs(messages), want)
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
	list, err := r.ReserveBatch(r.TB.Context(), topic, n, lease)
	want := r.model.reserve(r.taking([]string{topic}, n, deliveryIDs(list)), 0)
	r.note(fmt.Sprintf("reserve %d of %s for %v", n, topic, lease), err, errEmptyIf(len(want) == 0))
	r.hold(list, want, 0)
}

// fetch may wait, so it is called only if there is a job.
func fetchStep(r *modelRun) {
	topics, n, most := r.topics(), 1+r.IntN(3), r.IntN(3)
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
	call := r.taking(topics, n, deliveryIDs(list))
	call.some = true
	want := r.model.reserve(call, most)
	r.note(fmt.Sprintf("fetch %d of %v, %d attempts", n, topics, most), err, nil)
	r.hold(list, want, most)
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
	want := client.ErrLeaseLost
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
			err := h.Retry(r.TB.Context(), delay, client.Cause(errors.New("failed")))
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
				return h.Release(r.TB.Context())
			}
			err := h.Snooze(r.TB.Context(), delay)
			if err == nil {
				r.learn(h.ID, delay)
			}
			return err
		})
}

func buryStep(r *modelRun) {
	r.settle("bury", func(h *modelHold) error {
		return r.model.settle(h.Topic, h.ID, h.lease, func() error { r.model.bury(h.ID); return nil })
	}, func(h *modelHold) error { return h.Bury(r.TB.Context(), "why") })
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

func requeueStep(r *modelRun) {
	id := r.id()
	r.note("requeue "+id, r.Requeue(r.TB.Context(), id), r.model.requeue(id))
}

func dropDeadStep(r *modelRun) {
	if r.IntN(4) > 0 {
		return
	}
	id, topic := r.id(), r.topic()
	want := 0
	if letter, dead := r.model.letters[id]; dead && letter.topic == topic {
		want = 1
		r.model.dropDead(id)
	}
	dropped, err := r.DropDead(r.TB.Context(), topic, id)
	r.note("drop "+id+" of "+topic, err, nil)
	r.same("  dropped", dropped, want)
}

func removeStep(r *modelRun) {
	id := r.id()
	removed, err := r.Remove(r.TB.Context(), id)
	r.note("remove "+id, err, nil)
	r.same("  removed", removed, r.model.remove(id))
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
	state := client.Ready
	if entry, waits := r.model.pool[id]; waits && entry.lease > 0 {
		state = client.Reserved
	} else if waits {
		state = client.Waiting
	}
	if !exists {
		if want, exists = r.model.letters[id]; !exists {
			r.note("get "+id, err, client.ErrNotFound)
			return
		}
		state = client.Dead
	}
	r.note("get "+id, err, nil)
	r.same("  got", []any{job.State, job.Topic, job.Body, job.Attempts, job.MaxAttempts, job.Followed},
		[]any{state, want.topic, want.body, want.attempts, want.maxAttempts, want.follower != nil})
}

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
	check(r.TB, errOf(r.jobs.Stores[0].KeepPaused("0", 1).Do(r.TB.Context()))) // before a consumer gets a job that the pass has made ready
	r.note("old server", nil, nil)
}
