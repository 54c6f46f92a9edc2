package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The permissions in docs/operating.md suffice for every call of consumers, and for what TestDocumentedRightsOfEachPush leaves to
// this test.
func TestDocumentedRights(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	producer := f.as("producer", redistest.Rights(t, "producer"))
	consumer := f.as("consumer", redistest.Rights(t, "consumer"))
	waiting := f.waiter(ctx, consumer, "t")
	for _, want := range []error{nil, client.ErrExists} {
		expectErr(t, "OnceAs", errOf(producer.Push(ctx, message("as"), time.Hour, client.OnceAs(time.Millisecond, "a"))), want)
	}
	check(t, errOf(producer.Remove(ctx, "as")))
	large := `"` + strings.Repeat("x", 20_000) + `"`
	for range 2 { // the second one is ready
		check(t, errOf(producer.Push(ctx, client.Message{Topic: "grouped", Body: large}, 0, client.Group("k", client.GroupOptions{Max: 2, Quiet: time.Hour}))))
	}
	check(t, errOf(consumer.Pop(ctx, "grouped")))
	check(t, errOf(producer.Push(ctx, message("a"), time.Second))) // due soon, which is announced
	check(t, producer.Reschedule(ctx, "a", 0))
	expectJob(t, waiting, "a")
	// An entry of a job that belongs to another topic.
	f.Do("HSET", "delayer:job_bucket:stray", "topic", "v", "body", "b")
	f.Do("LPUSH", "delayer:ready_queue:t", "stray")
	expectJob(t, bpop(ctx, consumer, hangBound, "t", "v"), "stray")
	check(t, producer.Ping(ctx))
	check(t, consumer.Ping(ctx))
	f.Do("DEL", "delayer:once")
	f.Expect(state{})
	f.expectNothingDenied()
}

// expectNothingDenied checks that Redis refused no command, not even one that a script can do without.
func (f *fixture) expectNothingDenied() {
	f.TB.Helper()
	if denied := f.Do("ACL", "LOG").([]any); len(denied) > 0 {
		f.TB.Errorf("Redis has refused %q", denied)
	}
}

// The documented permissions suffice for schedules. TestDocumentedRightsOfEachPush has the producer's.
func TestDocumentedRightsOnSchedules(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	operator := f.as("operator", redistest.Rights(t, "operator"))
	for _, schedules := range [][]client.Schedule{{hourly("a"), hourly("b")}, {hourly("a")}} {
		check(t, errOf(operator.SetSchedules(ctx, "me", schedules)))
	}
	check(t, errOf(operator.Schedule(ctx, hourly("a"))))
	check(t, operator.PauseSchedule(ctx, "a"))
	check(t, errOf(operator.Schedules(ctx)))
	check(t, operator.ResumeSchedule(ctx, "a"))
	check(t, errOf(operator.Unschedule(ctx, "a")))
	f.expectNothingDenied()
}

// call is a call of a Client, or several of them.
type call = func(*client.Client) error

// pushCall pushes job a of topic t.
func pushCall(delay time.Duration, opts ...client.PushOption) call {
	return func(c *client.Client) error { return errOf(c.Push(context.Background(), message("a"), delay, opts...)) }
}

// groupCall pushes these IDs to a group of two.
func groupCall(ids []string, opts ...client.PushOption) call {
	opts = append(opts, client.Group("k", client.GroupOptions{Max: 2, Quiet: time.Hour}))
	return func(c *client.Client) error {
		for _, id := range ids {
			err := errOf(c.Push(context.Background(), client.Message{ID: id, Topic: "t", Body: "1"}, 0, opts...))
			if err != nil && !errors.Is(err, client.ErrExists) {
				return err
			}
		}
		return nil
	}
}

// statesOfAJob has the calls that bring job a of topic t into each state, and some of a schedule.
func (f *fixture) statesOfAJob() map[string][]call {
	ctx := f.TB.Context()
	reserve := func(c *client.Client) error { return errOf(c.Reserve(ctx, 0, time.Hour, "t")) }
	pause := func(c *client.Client) error { return c.Pause(ctx, "t", client.PauseOptions{}) }
	limit := func(c *client.Client) error { return c.SetLimit(ctx, "t", client.Limit{Concurrency: 1}) }
	schedule := func(c *client.Client) error { return errOf(c.Schedule(ctx, hourly("s"))) }
	waiters := func(*client.Client) error { f.Do("ZADD", "delayer:waiters:t", 1, "w", 2, "x"); return nil }
	push := pushCall(0)
	return map[string][]call{
		"none":                {},
		"waits":               {pushCall(time.Minute)},
		"ready":               {push},
		"reserved":            {push, reserve},
		"reserved, a limit":   {limit, push, reserve},
		"has a follower":      {push, reserve, pushCall(0, client.Follow)},
		"ready, and paused":   {push, pause},
		"none, and paused":    {pause},
		"waits, pushed once":  {pushCall(time.Minute, client.Once(time.Hour))},
		"ready, with waiters": {push, waiters},
		"scheduled":           {schedule},
		"scheduled, paused":   {schedule, pause},
	}
}

// deniedIn returns the states in which Redis refuses a user with these permissions a command of the call.
func (f *fixture) deniedIn(states map[string][]call, rights string, call call) (in []string) {
	f.TB.Helper()
	c := f.as("u", rights)
	for name, steps := range states {
		f.Do("FLUSHALL")
		f.Do("ACL", "LOG", "RESET")
		for _, step := range steps {
			check(f.TB, step(f.Client))
		}
		if err := call(c); store.Refused(err) || len(f.Do("ACL", "LOG").([]any)) > 0 {
			in = append(in, name)
		}
	}
	return in
}

// The notes to the producer's ACL line name exactly the permissions that the named calls need.
func TestDocumentedRightsOfEachPush(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	ctx := t.Context()
	push, group, schedule := pushCall, groupCall, func(c *client.Client) error { return errOf(c.Schedule(ctx, hourly("s"))) }
	states := f.statesOfAJob()
	unnamed := redistest.Rights(t, "producer") + " -pttl -del -zrangebyscore -wait"
	unpaused := unnamed + " -hmget -lmove"
	for _, c := range []struct {
		name   string
		rights string // all other permissions that the push may need
		needs  string
		call   call
	}{
		{"Push", unnamed, "hmget lmove", push(0)},
		{"Push with a delay", unpaused, "", push(time.Hour)},
		{"Refuse", unnamed, "hmget lmove", push(0, client.Refuse)},
		{"KeepEarlier", unnamed, "hmget lmove", push(time.Hour, client.KeepEarlier)},
		{"KeepLater", unpaused, "", push(time.Hour, client.KeepLater)},
		{"PushBatch", unnamed, "hmget lmove", func(c *client.Client) error { return errOf(c.PushBatch(ctx, jobs(0, 3, "t", 0))) }},
		{"Once", unpaused, "pttl zrangebyscore", push(time.Hour, client.Once(time.Hour))},
		{"Debounce", unpaused, "hmget", push(time.Hour, client.Debounce(2*time.Hour))},
		{"Follow", unpaused, "pttl", push(time.Hour, client.Follow)},
		{"Group", unnamed, "del hmget lmove", group([]string{"", "", ""})},
		{"Group with Once", unnamed, "del pttl zrangebyscore hmget lmove", group([]string{"1", "1", "2"}, client.Once(time.Hour))},
		{"Replicas", unpaused, "wait", push(time.Hour, client.Replicas(1, time.Millisecond))},
		{"Remove", unpaused, "del", func(c *client.Client) error { return errOf(c.Remove(ctx, "a")) }},
		{"Get", unpaused, "hmget pttl", func(c *client.Client) error { return errOf(c.Get(ctx, "a")) }},
		{"Reschedule", unpaused, "pttl", func(c *client.Client) error { return c.Reschedule(ctx, "a", time.Minute) }},
		{"Schedule", unpaused, "hmget", schedule},
		{"Unschedule", unpaused, "del hmget", func(c *client.Client) error { return errOf(c.Unschedule(ctx, "s")) }},
		{"PauseSchedule", unpaused, "hmget", func(c *client.Client) error { return c.PauseSchedule(ctx, "s") }},
		{"ResumeSchedule", unpaused, "hmget", func(c *client.Client) error { return c.ResumeSchedule(ctx, "s") }},
		{"RunNow", unnamed, "hmget lmove", func(c *client.Client) error { return errOf(c.RunNow(ctx, "s")) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rights := c.rights
			for command := range strings.FieldsSeq(c.needs) {
				rights += " +" + command
			}
			f := f.with(t)
			if in := f.deniedIn(states, rights, c.call); in != nil {
				t.Errorf("it needs more than %s, where the job is %s", c.needs, strings.Join(in, "; "))
			}
			for command := range strings.FieldsSeq(c.needs) {
				if f.deniedIn(states, rights+" -"+command, c.call) == nil {
					t.Errorf("it does not need +%s", command)
				}
			}
		})
	}
}

// The permissions that the notes name for limits are needed only to reserve jobs of a topic with a limit.
func TestDocumentedRightsOfLimits(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	worker := f.as("worker", redistest.Rights(t, "worker")+" -zrange")
	check(t, f.SetLimit(ctx, "limited", client.Limit{Concurrency: 1}))
	for _, topic := range []string{"limited", "t"} {
		check(t, errOf(f.Push(ctx, client.Message{ID: topic, Topic: topic, Body: "b"}, 0)))
	}
	if _, err := worker.Reserve(ctx, 0, time.Minute, "limited"); !store.Refused(err) {
		t.Errorf("Reserve of a topic with a limit: %v, want that it is refused", err)
	}
	check(t, f.reserveBy(worker, "t", "t", time.Minute).Ack(ctx))
	f.reserveBy(f.Client, "limited", "limited", time.Minute)
}

// users has the Clients of the documented users.
type users struct {
	*fixture
	producer, worker, operator *client.Client
}

func (u users) push(id string, opts ...client.PushOption) {
	u.TB.Helper()
	check(u.TB, errOf(u.producer.Push(u.TB.Context(), message(id), 0, opts...)))
}

func (u users) reserve(id string) *client.Delivery {
	u.TB.Helper()
	return u.reserveBy(u.worker, "t", id, time.Minute)
}

// The documented permissions suffice for workers and operators.
func TestDocumentedRightsOfWorkers(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	u := users{f, f.as("producer", redistest.Rights(t, "producer")), f.as("worker", redistest.Rights(t, "worker")), f.as("operator", redistest.Rights(t, "operator"))}
	limit := client.Limit{Concurrency: 2, Rate: 1000, Burst: 100}
	check(t, u.operator.SetLimit(ctx, "t", limit))
	u.settle()
	u.endLeases()
	u.pause()
	check(t, u.operator.SetLimit(ctx, "t", client.Limit{}))
	check(t, u.operator.SetLimit(ctx, "t", limit))
	if l, err := u.operator.Limit(ctx, "t"); l != limit || err != nil {
		t.Errorf("Limit = %+v, %v", l, err)
	}
	u.exceedLimit()
	check(t, u.operator.SetLimit(ctx, "t", client.Limit{}))
	check(t, u.worker.Ping(ctx))
	pool := f.newPool(client.PoolOptions{Username: "operator", Password: "p"})
	f.Do("HSET", "delayer:servers", "id", "{}")
	s := store.New(pool, f.Prefix)
	check(t, errOf(s.Servers(ctx)))
	if n, err := s.Acked(ctx); n != 3 || err != nil {
		t.Errorf("Acked = %d, %v", n, err)
	}
	f.Expect(state{})
	f.expectNothingDenied()
}

// settle settles jobs in each way, and handles dead letters.
func (u users) settle() {
	t, ctx := u.TB, u.TB.Context()
	u.push("a", client.MaxAttempts(2), client.TTR(time.Minute), client.ReadyMaxLifetime(time.Minute))
	d := u.reserve("a")
	check(t, d.Extend(ctx, time.Hour))
	check(t, d.Release(ctx))
	check(t, u.reserve("a").Retry(ctx, 0, client.Cause(client.ErrEmpty)))
	expectErr(t, "Retry of the last attempt", u.reserve("a").Retry(ctx, time.Second), client.ErrExhausted)
	check(t, deadError(u.operator, ctx, "t"))
	check(t, u.operator.Requeue(ctx, "a"))
	check(t, u.reserve("a").Ack(ctx))
	u.push("b")
	check(t, u.reserve("b").Snooze(ctx, time.Second))
	check(t, u.producer.Reschedule(ctx, "b", 0))
	check(t, u.reserve("b").Bury(ctx, "why"))
	check(t, errOf(u.operator.Get(ctx, "b")))
	check(t, errOf(u.operator.RequeueAll(ctx, "t")))
	u.push("c")
	b, c := u.reserve("b"), u.reserve("c")
	check(t, c.Bury(ctx, "why"))
	check(t, b.Release(ctx))
	check(t, errOf(u.operator.Stats(ctx)))
	if n, err := u.operator.DropAllDead(ctx, "t"); n != 1 || err != nil {
		t.Errorf("DropAllDead = %d, %v", n, err)
	}
}

// endLeases ends leases of a job by other calls, and delivers followers.
func (u users) endLeases() {
	t, ctx := u.TB, u.TB.Context()
	d := u.reserve("b")
	u.push("b", client.Follow)
	check(t, d.Ack(ctx))
	d = u.reserve("b")
	u.push("b")
	expectErr(t, "Ack of what was pushed anew", d.Ack(ctx), client.ErrLeaseLost)
	u.reserve("b")
	check(t, u.producer.Reschedule(ctx, "b", 0))
	u.reserve("b")
	check(t, errOf(u.producer.Remove(ctx, "b")))
	// A job with a follower, whose lease has ended.
	u.push("f")
	check(t, errOf(u.Reserve(ctx, 0, time.Hour, "t")))
	u.push("f", client.Follow)
	u.Do("ZREM", "delayer:job_pool", "f")
	u.Do("LPUSH", "delayer:ready_queue:t", "f")
	u.Do("HDEL", "delayer:reserved", "t")
	for range 2 {
		expectJob(t, background(func() (client.Message, error) { return u.worker.Pop(ctx, "t") }), "f")
	}
}

// pause pauses the topic, and backs off from it.
func (u users) pause() {
	t, ctx := u.TB, u.TB.Context()
	check(t, u.operator.Pause(ctx, "t", client.PauseOptions{For: time.Hour, Note: "note"}))
	check(t, u.worker.BackOff(ctx, "t", time.Hour))
	u.push("paused")
	check(t, errOf(u.operator.Paused(ctx)))
	check(t, errOf(u.operator.Resume(ctx, "t")))
	d := u.reserve("paused")
	check(t, u.worker.BackOff(ctx, "t", time.Hour))
	check(t, d.Release(ctx))
	check(t, errOf(u.operator.Resume(ctx, "t")))
	check(t, errOf(u.producer.Remove(ctx, "paused")))
}

// exceedLimit reserves up to the limit of two, and beyond.
func (u users) exceedLimit() {
	t, ctx := u.TB, u.TB.Context()
	u.push("d")
	extended := u.reserve("d")
	u.Do("ZADD", "delayer:slots:t", 1, "d") // as if the job's lease had ended
	u.push("e")
	u.reserve("e")
	u.push("f")
	expectErr(t, "ReserveBatch beyond the limit", errOf(u.worker.ReserveBatch(ctx, "t", 1, time.Minute)), client.ErrEmpty)
	check(t, errOf(u.producer.Remove(ctx, "f")))
	check(t, errOf(u.producer.Remove(ctx, "e")))
	check(t, extended.Ack(ctx))
}
