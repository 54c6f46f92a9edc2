package store

import (
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// use returns how long ago the topic was last used, and for how long it will have jobs, in seconds; -1 if unknown.
func (b *backend) use(t *testing.T, topic string) (used, due float64) {
	t.Helper()
	at := func(key string) float64 {
		score, err := redis.Float64(b.do(t, "ZSCORE", key, topic), nil)
		if errors.Is(err, redis.ErrNil) {
			return -1
		}
		check(t, err)
		return score
	}
	now := b.clock(t)
	if used = at(b.keys.Topics()); used >= 0 {
		used = now - used
	}
	if due = at(b.keys.TopicsDue()); due >= 0 {
		due -= now
	}
	return used, due
}

func (b *backend) expectRegistered(t *testing.T, what, topic string, used bool, due time.Duration) {
	t.Helper()
	gotUsed, gotDue := b.use(t, topic)
	if used != (gotUsed >= 0) || gotUsed > 61 {
		t.Errorf("%s: %q was used %.0f s ago, want known %v", what, topic, gotUsed, used)
	}
	// The topic is kept until the job is due plus at least half an hour and at most an hour.
	if least := due.Seconds(); due == 0 && gotDue >= 0 || due > 0 && (gotDue < least+1799 || gotDue > least+3601) {
		t.Errorf("%s: %q has jobs for %.0f s, want %v", what, topic, gotDue, due)
	}
}

// A push registers its topic and the latest due time of its jobs, unless both are known.
func TestPushEntersTopics(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		now := time.Now()
		b.recent.now = func() time.Time { return now }
		push := func(topic string, delay time.Duration) {
			t.Helper()
			check(t, b.push(t.Context(), Job{ID: "id", Topic: topic, Body: "b"}, Due{After: delay}, kept, Replace))
		}
		forget := func() { b.do(t, "DEL", b.keys.Topics(), b.keys.TopicsDue()) }

		push("t", 0)
		b.expectRegistered(t, "at first", "t", true, 0)
		forget()
		push("t", 0)
		push("t", soon-time.Second)
		b.expectRegistered(t, "known", "t", false, 0)
		push("t", soon+time.Second)
		b.expectRegistered(t, "with a job for later", "t", true, soon+time.Second)
		push("t", 72*time.Hour)
		b.expectRegistered(t, "with one for later still", "t", true, 72*time.Hour)
		push("t", 2*time.Hour)
		push("t", 0)
		b.expectRegistered(t, "with an earlier one", "t", true, 72*time.Hour)
		forget()
		now = now.Add(knownFor - time.Second)
		push("t", 72*time.Hour) // repeated pushes with the same delay
		b.expectRegistered(t, "with one as late as the last", "t", false, 0)
		now = now.Add(time.Second)
		push("t", 0)
		b.expectRegistered(t, "after a while", "t", true, 0)

		// Earlier versions registered 0.
		b.do(t, "ZADD", b.keys.Topics(), 0, "u")
		push("u", 0)
		b.expectRegistered(t, "of old", "u", true, 0)
		b.do(t, "ZADD", b.keys.Topics(), 9e9, "v")
		push("v", 0)
		if used, _ := b.use(t, "v"); used > 0 {
			t.Errorf("a later use is overwritten: %.0f s ago", used)
		}
	})
}

// A batch registers each of its topics with the latest job, unless that job was refused.
func TestBatchEntersTopics(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		check(t, b.push(t.Context(), Job{ID: "there", Topic: "t", Body: "b"}, Due{}, kept, Replace))
		at := time.Now().Add(5 * time.Hour)
		job := func(id, topic string, due Due, policy Policy) Delayed {
			return Delayed{Job{ID: id, Topic: topic, Body: "b"}, due, Terms{Lifetime: kept, Policy: policy}, nil}
		}
		jobs := []Delayed{
			job("a", "t", Due{After: time.Hour}, Replace),
			job("b", "u", Due{At: at}, Replace),
			job("c", "u", Due{After: time.Hour}, Replace),
			job("there", "refused", Due{After: time.Hour}, Refuse),
		}
		errs, err := b.Push(jobs).Do(t.Context())
		if err != nil || errs[0] != nil || errs[1] != nil || errs[2] != nil || !errors.Is(errs[3], ErrExists) {
			t.Fatal(errs, err)
		}
		b.expectRegistered(t, "t", "t", true, time.Hour)
		b.expectRegistered(t, "u", "u", true, 5*time.Hour)
		b.expectRegistered(t, "what was refused", "refused", false, 0)
		// So the next push registers it.
		made(t, b.Push([]Delayed{job("d", "refused", Due{}, Replace)}))
		b.expectRegistered(t, "refused before", "refused", true, 0)
	})
}

// A job that becomes ready counts as a use of its topic.
func TestMoveEntersTopics(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("a", "t", -second))
		b.moveDue(t)
		b.expectRegistered(t, "moved", "t", true, 0)
		b.do(t, "ZADD", b.keys.Topics(), 60, "t")
		b.seed(t, waits("b", "t", -second), []command{{"ZADD", b.keys.Topics(), 60, "t"}})
		b.moveDue(t)
		b.expectRegistered(t, "moved again", "t", true, 0)
	})
}

// moveDue moves all due jobs.
func (b *backend) moveDue(t *testing.T) {
	t.Helper()
	found, err := b.Store.Due(Query{Limit: 100}).Do(t.Context())
	for _, batch := range found.Batches {
		if err == nil {
			_, err = b.Move(batch, found.Now, found.Now, found.Now).Do(t.Context())
		}
	}
	check(t, err)
}

// The cache of known topics is bounded.
func TestKnownTopicsAreBounded(t *testing.T) {
	k := newRecentTopics()
	for i := range maxKnown + 10 {
		k.remember([]Delayed{{Job: Job{Topic: time.Duration(i).String()}}}, []error{nil})
	}
	if n := len(k.covered); n != 10 {
		t.Errorf("%d are remembered, want 10", n)
	}
}

// A job returned or rescheduled with a long delay keeps its topic registered for that time.
func TestLongWaitsAreRegistered(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for name, wait := range map[string]func(delay time.Duration) error{
			"retry": func(delay time.Duration) error {
				held, _ := b.hold(t, "t", time.Minute)
				return errorOf(b.Retry([]Returned{{LeaseRef: held, Delay: delay}}).Do(t.Context()))
			},
			"reschedule": func(delay time.Duration) error { return b.Reschedule(t.Context(), "a", delay) },
		} {
			b.seed(t, ready("a", "t"))
			check(t, wait(soon-time.Second))
			b.expectRegistered(t, name+" until soon", "t", false, 0)
			b.seed(t, ready("a", "t"))
			check(t, wait(5*time.Hour))
			b.expectRegistered(t, name+" until later", "t", true, 5*time.Hour)
		}
	})
}
