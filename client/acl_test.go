package client_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The permissions in docs/access.md suffice for every call of consumers, and for what TestDocumentedRightsOfEachPush leaves to
// this test.
func TestDocumentedRights(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	producer := f.as("producer", redistest.Rights(t, "producer"))
	consumer := f.as("consumer", redistest.Rights(t, "consumer"))
	waiting := f.waiter(ctx, consumer, "t")
	for _, want := range []error{nil, client.ErrExists} {
		expectErr(t, "OnceAs", errOf(producer.Push(ctx, message("as"), time.Hour, client.IfExists(client.OnceAs(time.Millisecond, "a")))), want)
	}
	check(t, errOf(producer.Remove(ctx, "as")))
	large := `"` + strings.Repeat("x", 20_000) + `"`
	for range 2 { // the second one is ready
		check(t, errOf(producer.Push(ctx, client.Message{Topic: "grouped", Body: large}, 0, client.Group{Key: "k", Max: 2, Quiet: time.Hour})))
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
		check(t, errOf(operator.Schedules().SetAll(ctx, "me", schedules)))
	}
	check(t, errOf(operator.Schedules().Set(ctx, hourly("a"))))
	check(t, operator.Schedules().Pause(ctx, "a"))
	check(t, errOf(operator.Schedules().List(ctx)))
	check(t, operator.Schedules().Resume(ctx, "a"))
	check(t, errOf(operator.Schedules().Remove(ctx, "a")))
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
	opts = append(opts, client.Group{Key: "k", Max: 2, Quiet: time.Hour})
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
	reserve := func(c *client.Client) error { return errOf(c.Reserve(ctx, time.Hour, "t")) }
	pause := func(c *client.Client) error { return c.Pause(ctx, "t", client.PauseOptions{}) }
	limit := func(c *client.Client) error { return c.SetLimit(ctx, "t", client.Limit{Concurrency: 1}) }
	schedule := func(c *client.Client) error { return errOf(c.Schedules().Set(ctx, hourly("s"))) }
	waiters := func(*client.Client) error { f.Do("ZADD", "delayer:waiters:t", 1, "w", 2, "x"); return nil }
	push := pushCall(0)
	return map[string][]call{
		"none":                {},
		"waits":               {pushCall(time.Minute)},
		"ready":               {push},
		"reserved":            {push, reserve},
		"reserved, a limit":   {limit, push, reserve},
		"has a follower":      {push, reserve, pushCall(0, client.IfExists(client.Follow()))},
		"ready, and paused":   {push, pause},
		"none, and paused":    {pause},
		"waits, pushed once":  {pushCall(time.Minute, client.IfExists(client.Once(time.Hour)))},
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
	push, group, schedule := pushCall, groupCall, func(c *client.Client) error { return errOf(c.Schedules().Set(ctx, hourly("s"))) }
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
		{"Refuse", unnamed, "hmget lmove", push(0, client.IfExists(client.Refuse()))},
		{"KeepEarlier", unnamed, "hmget lmove", push(time.Hour, client.IfExists(client.KeepEarlier()))},
		{"KeepLater", unpaused, "", push(time.Hour, client.IfExists(client.KeepLater()))},
		{"PushBatch", unnamed, "hmget lmove", func(c *client.Client) error { return errOf(c.PushBatch(ctx, jobs(0, 3, "t", 0))) }},
		{"Once", unpaused, "pttl zrangebyscore", push(time.Hour, client.IfExists(client.Once(time.Hour)))},
		{"Debounce", unpaused, "hmget", push(time.Hour, client.IfExists(client.Debounce(2*time.Hour)))},
		{"Follow", unpaused, "pttl", push(time.Hour, client.IfExists(client.Follow()))},
		{"Group", unnamed, "del hmget lmove", group([]string{"", "", ""})},
		{"Group with Once", unnamed, "del pttl zrangebyscore hmget lmove", group([]string{"1", "1", "2"}, client.IfExists(client.Once(time.Hour)))},
		{"Replicas", unpaused, "wait", push(time.Hour, client.Replicas(1, time.Millisecond))},
		{"Remove", unpaused, "del", func(c *client.Client) error { return errOf(c.Remove(ctx, "a")) }},
		{"Get", unpaused, "hmget pttl", func(c *client.Client) error { return errOf(c.Get(ctx, "a")) }},
		{"Reschedule", unpaused, "pttl", func(c *client.Client) error { return c.Reschedule(ctx, "a", time.Minute) }},
		{"Schedule", unpaused, "hmget", schedule},
		{"Remove of a schedule", unpaused, "del hmget", func(c *client.Client) error { return errOf(c.Schedules().Remove(ctx, "s")) }},
		{"Pause of a schedule", unpaused, "hmget", func(c *client.Client) error { return c.Schedules().Pause(ctx, "s") }},
		{"Resume of a schedule", unpaused, "hmget", func(c *client.Client) error { return c.Schedules().Resume(ctx, "s") }},
		{"Run of a schedule", unnamed, "hmget lmove", func(c *client.Client) error { return errOf(c.Schedules().Run(ctx, "s")) }},
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
	if _, err := worker.Reserve(ctx, time.Minute, "limited"); !store.Refused(err) {
		t.Errorf("Reserve of a topic with a limit: %v, want that it is refused", err)
	}
	check(t, f.reserveBy(worker, "t", "t", time.Minute).Ack(ctx))
	f.reserveBy(f.Client, "limited", "limited", time.Minute)
}

// settled reserves the jobs of topic t, and settles them.
func (f *fixture) settled(settle func(context.Context, *client.Delivery) error) call {
	return func(c *client.Client) error {
		list, err := c.Fetch(f.TB.Context(), clienttest.Ready("t", 10, time.Minute))
		for _, d := range list {
			err = cmp.Or(err, settle(f.TB.Context(), d))
		}
		return err
	}
}

// The documented permissions suffice for each call of workers and operators, whatever state the job is in.
func TestDocumentedRightsOfWorkers(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	ctx := t.Context()
	do := func(command string, args ...any) call {
		return func(*client.Client) error { f.Do(command, args...); return nil }
	}
	limit := func(l client.Limit) call {
		return func(c *client.Client) error { return c.SetLimit(ctx, "t", l) }
	}
	states := f.statesOfAJob()
	push, last := pushCall(0), pushCall(0, client.JobOptions{MaxAttempts: 1, Lease: time.Minute, ExpireAfter: time.Minute})
	reserve, pushB := states["reserved"][1], func(c *client.Client) error { return errOf(c.Push(ctx, message("b"), 0)) }
	leaseIsOver := []call{do("ZREM", "delayer:job_pool", "a"), do("LPUSH", "delayer:ready_queue:t", "a"), do("HDEL", "delayer:reserved", "t")}
	atTheLimit := []call{limit(client.Limit{Concurrency: 1, Rate: 1000, Burst: 100}), push, reserve, pushB}
	maps.Copy(states, map[string][]call{
		"dead":                         {push, f.settled(verbs["Bury"])},
		"ready for its last attempt":   {last},
		"ready, two of them":           {push, pushB},
		"ready without an attempt":     append([]call{last, reserve}, leaseIsOver...),
		"ready with a follower":        append([]call{push, reserve, pushCall(0, client.IfExists(client.Follow()))}, leaseIsOver...),
		"exhausted with a follower":    append([]call{last, reserve, pushCall(0, client.IfExists(client.Follow()))}, leaseIsOver...),
		"ready at the limit":           atTheLimit,
		"ready, and a slot has ended":  append(slices.Clone(atTheLimit), do("ZADD", "delayer:slots:t", 1, "a")),
		"ready, throttled":             {push, func(c *client.Client) error { return c.Throttle(ctx, "t", time.Hour) }},
		"there are servers and counts": {do("HSET", "delayer:servers", "id", "{}"), do("SET", "delayer:acked", 1)},
	})
	calls := map[string]map[string]call{"worker": {
		"Reserve":  func(c *client.Client) error { return errOf(c.Fetch(ctx, clienttest.Ready("t", 1, time.Minute))) },
		"Pop":      func(c *client.Client) error { return errOf(c.Pop(ctx, "t")) },
		"Throttle": func(c *client.Client) error { return c.Throttle(ctx, "t", time.Hour) },
		"Ping":     func(c *client.Client) error { return c.Ping(ctx) },
		"Ack of what was pushed anew": f.settled(func(ctx context.Context, d *client.Delivery) error {
			return cmp.Or(errOf(f.Push(ctx, message(d.ID), 0)), d.Ack(ctx))
		}),
		"Retry at once": f.settled(func(ctx context.Context, d *client.Delivery) error {
			return d.Retry(ctx, 0, client.ErrEmpty)
		}),
	}, "operator": {
		"SetLimit": limit(client.Limit{Concurrency: 2, Rate: 1000, Burst: 100}),
		"no limit": limit(client.Limit{}),
		"Pause": func(c *client.Client) error {
			return c.Pause(ctx, "t", client.PauseOptions{For: time.Hour, Note: "note"})
		},
		"Paused":     func(c *client.Client) error { return errOf(c.Paused(ctx)) },
		"Resume":     func(c *client.Client) error { return errOf(c.Resume(ctx, "t")) },
		"Get":        func(c *client.Client) error { return errOf(c.Get(ctx, "a")) },
		"Stats":      func(c *client.Client) error { return errOf(c.Stats(ctx)) },
		"Dead":       func(c *client.Client) error { return deadError(c, ctx, "t") },
		"Requeue":    func(c *client.Client) error { return c.Requeue(ctx, "a") },
		"RequeueAll": func(c *client.Client) error { return errOf(c.RequeueAll(ctx, "t")) },
		"DropAll":    func(c *client.Client) error { return errOf(c.DropAll(ctx, "t")) },
		"servers": func(*client.Client) error {
			s := store.New(client.Conns(f.reached(client.PoolOptions{Username: "u", Password: "p"})), f.Prefix)
			return cmp.Or(errOf(s.Servers(ctx)), errOf(s.Acked().Do(ctx)))
		},
	}}
	for name, settle := range verbs {
		calls["worker"][name] = f.settled(settle)
	}
	for user, calls := range calls {
		for name, call := range calls {
			if in := f.deniedIn(states, redistest.Rights(t, user), call); in != nil {
				t.Errorf("the %s lacks a permission for %s, where the job is %s", user, name, strings.Join(in, "; "))
			}
		}
	}
}
