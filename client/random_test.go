package client_test

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
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
	base, runs := rand.Uint64()>>1<<1, uint64(cmp.Or(*modelRuns, redistest.Rounds(200, 1200)))
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
	on := f.reached(client.PoolOptions{})
	defer on.Close()
	c := redistest.Must(client.New(on, client.WithPrefix(f.Prefix))) // other Clients have not noticed that Redis was emptied
	defer c.Close()
	r := &modelRun{fixture: &fixture{c, f.Server}, Rand: rand.New(rand.NewPCG(seed, 0)), model: newModel(f.Clock(), f.Partitions)}
	r.jobs = clienttest.Jobs(on, f.Prefix)
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

var newSteps = []func(*modelRun){
	pushStep, pushStep, pushBatchStep, popStep, reserveStep, reserveStep, fetchStep, timePassesStep, timePassesStep, passStep, passStep, passStep,
	ackStep, retryStep, retryStep, releaseStep, extendStep, buryStep, ackBatchStep, requeueStep, removeStep, rescheduleStep, dropDeadStep, getStep,
	burstIsOverStep, onceIsOverStep, scheduleStep, scheduleStep, unscheduleStep, pauseScheduleStep, runNowStep, scheduleIsDueStep, scheduleIsDueStep,
	pauseStep, resumeStep, resumeStep, groupStep, groupStep, groupStep, limitStep, limitStep, limitStep, extendedStep,
}
