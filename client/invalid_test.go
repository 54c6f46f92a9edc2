package client_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// invalid is the error of a call with an invalid argument, and what it says.
type invalid struct {
	err   error
	names string
}

// Errors name the invalid field. Nothing is sent, and no connection is taken.
func TestInvalid(t *testing.T) {
	c := clienttest.On(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		t.Error("Redis was asked")
		return nil, errors.New("no Redis")
	}})
	defer c.Close()
	for _, calls := range []map[string]invalid{invalidPushes(c), invalidGroups(c), invalidTakes(c), invalidCallsOnJobs(c)} {
		for name, tt := range calls {
			operation, _, _ := strings.Cut(name, ":")
			expectErr(t, name, tt.err, client.ErrInvalid)
			if text := fmt.Sprint(tt.err); !strings.Contains(text, tt.names) || !strings.HasPrefix(text, "delayer: "+strings.ToLower(strings.TrimSuffix(operation, "At"))) {
				t.Errorf("%s: error %q, want one with the operation in front and %q", name, text, tt.names)
			}
		}
	}
}

// invalidPushes has pushes with invalid arguments.
func invalidPushes(c *client.Client) map[string]invalid {
	ctx, m := context.Background(), message("a")
	push := func(m client.Message, delay time.Duration, opts ...client.PushOption) error {
		return errOf(c.Push(ctx, m, delay, opts...))
	}
	pushAt := func(m client.Message, due time.Time, opts ...client.PushOption) error {
		return errOf(c.PushAt(ctx, m, due, opts...))
	}
	large := unsafe.String(unsafe.SliceData(make([]byte, 512<<20+1)), 512<<20+1) // its memory is never touched
	return map[string]invalid{
		"push: topic":                {push(client.Message{ID: "a", Body: "b"}, time.Second), "invalid topic: "},
		"push: body":                 {push(client.Message{ID: "a", Topic: "t"}, time.Second), "invalid body: "},
		"push: delay":                {push(m, 1), "invalid delay: 1ns is less than a millisecond; "},
		"push: long delay":           {push(m, store.MaxDelay+1), "invalid delay: 36500d1ns is more than 100 years"},
		"push: long lifetime":        {push(m, time.Second, client.JobOptions{ExpireAfter: store.MaxDelay + 1}), "invalid expire after: "},
		"push: tiny lifetime":        {push(m, time.Second, client.JobOptions{ExpireAfter: 30}), "invalid expire after: 30ns is less than a millisecond; in Go a number without a unit is in nanoseconds, and 30 seconds are 30*time.Second"},
		"push: tiny ttr":             {push(m, time.Second, client.JobOptions{Lease: time.Millisecond - 1}), "invalid lease: 999.999µs is less than a millisecond; "},
		"push: option":               {push(m, time.Second, nil), "invalid option: it is nil"},
		"push: large body":           {push(client.Message{Topic: "t", Body: large}, time.Second), "invalid body: it has 536870913 bytes: want 536870912 at most"},
		"push: long id":              {push(client.Message{ID: strings.Repeat("i", 4097), Topic: "t", Body: "b"}, time.Second), "invalid id: it has 4097 bytes: want 4096 at most"},
		"push batch: option":         {errOf(c.PushBatch(ctx, []client.Item{{Message: m}}, nil)), "invalid option: "},
		"push batch: its option":     {errOf(c.PushBatch(ctx, []client.Item{{Message: m, Options: []client.PushOption{nil}}})), "job 0: invalid option: "},
		"push batch: tiny ttr":       {errOf(c.PushBatch(ctx, []client.Item{{Message: m}}, client.JobOptions{Lease: 5})), "job 0: invalid lease: 5ns is less "},
		"push: no window":            {push(m, time.Second, client.IfExists(client.Once(0))), "invalid once: "},
		"push: no debounce":          {push(m, time.Second, client.IfExists(client.Debounce(store.MaxDelay+1))), "invalid debounce: "},
		"push: once without ID":      {push(client.Message{Topic: "t", Body: "b"}, time.Second, client.IfExists(client.Once(time.Hour))), "invalid Once: it means nothing without id"},
		"push: debounce below delay": {push(m, time.Minute, client.IfExists(client.Debounce(time.Second))), "invalid debounce: 1s is shorter than the delay of 1m"},
		"push: debounce without ID":  {push(client.Message{Topic: "t", Body: "b"}, time.Second, client.IfExists(client.Debounce(time.Hour))), "invalid Debounce: it means nothing without id"},
		"push: follow without ID":    {push(client.Message{Topic: "t", Body: "b"}, time.Second, client.IfExists(client.Follow())), "invalid Follow: it means nothing without id"},
		"push: many attempts":        {push(m, time.Second, client.JobOptions{MaxAttempts: math.MaxInt32 + 1}), "invalid max attempts: 2147483648 "},
		"push: no replicas":          {push(m, time.Second, client.Replicas(0, time.Second)), "invalid replicas: 0 is not from 1 to 100"},
		"push: many replicas":        {push(m, time.Second, client.Replicas(101, time.Second)), "invalid replicas: 101 "},
		"push: replicas forever":     {push(m, time.Second, client.Replicas(1, 0)), "invalid replicas timeout: 0s is not above 0 and up to 10s"},
		"push: tiny replicas":        {push(m, time.Second, client.Replicas(1, 5)), "invalid replicas timeout: 5ns is less than a millisecond; "},
		"push: long replicas":        {push(m, time.Second, client.Replicas(1, time.Minute)), "invalid replicas timeout: 1m "},
		"push: long ttr":             {push(m, time.Second, client.JobOptions{Lease: store.MaxLease + 1}), "invalid lease: 24h0m0.000000001s "},
		"pushAt: topic":              {pushAt(client.Message{Body: "b"}, time.Now()), "invalid topic: "},
		"pushAt: due":                {pushAt(m, time.Time{}), "invalid due: "},
		"pushAt: far due":            {pushAt(m, time.Now().Add(store.MaxDelay+time.Hour)), "invalid due: "},
	}
}

// invalidGroups has invalid pushes to groups.
func invalidGroups(c *client.Client) map[string]invalid {
	ctx, element := context.Background(), client.Message{Topic: "t", Body: "1"}
	push := func(m client.Message, delay time.Duration, opts ...client.PushOption) error {
		return errOf(c.Push(ctx, m, delay, opts...))
	}
	return map[string]invalid{
		"push: group, key":             {push(element, 0, groupOf("", longGroup)), "invalid group key: it is empty"},
		"push: group, long key":        {push(element, 0, groupOf(strings.Repeat("k", 257), longGroup)), "invalid group key: it has 257 bytes: want 256 at most"},
		"push: group, max":             {push(element, 0, client.Group{Key: "k", Max: -1, Longest: 1}), "invalid group max: -1 "},
		"push: group, no time":         {push(element, 0, client.Group{Key: "k", Max: 9}), "invalid Group: Quiet and Longest are missing: want one of the two, or both"},
		"push: group, quiet":           {push(element, 0, client.Group{Key: "k", Quiet: -time.Second, Longest: time.Hour}), "invalid group quiet: -1s "},
		"push: group, tiny longest":    {push(element, 0, client.Group{Key: "k", Longest: 60}), "invalid group longest: 60ns is less than a millisecond; "},
		"push: group, long longest":    {push(element, 0, client.Group{Key: "k", Longest: store.MaxDelay + 1}), "invalid group longest: "},
		"push: group, delay":           {push(element, time.Second, groupOf("k", longGroup)), "invalid delay: it does not go together with Group"},
		"push: group, time":            {errOf(c.PushAt(ctx, element, time.Now(), groupOf("k", longGroup))), "invalid due: it does not go together with Group: want one of the two"},
		"push: group, policy":          {push(element, 0, groupOf("k", longGroup), client.IfExists(client.Replace())), "invalid Replace: it does not go together with Group"},
		"push: group, id":              {push(client.Message{ID: "a", Topic: "t", Body: "1"}, 0, groupOf("k", longGroup)), "invalid id: with Group it means nothing without Once"},
		"push: group, once without ID": {push(element, 0, groupOf("k", longGroup), client.IfExists(client.Once(time.Hour))), "invalid Once: it means nothing without id"},
		"push: group, body":            {push(client.Message{Topic: "t", Body: "b"}, 0, groupOf("k", longGroup)), "invalid body: it is not JSON"},
		"push: group, empty body":      {push(client.Message{Topic: "t"}, 0, groupOf("k", longGroup), client.JobOptions{EmptyBody: true}), "invalid body: it is not JSON"},
		"push batch: group":            {errOf(c.PushBatch(ctx, []client.Item{{Message: element, Delay: time.Second}}, groupOf("k", longGroup))), "job 0: invalid delay: "},
	}
}

// invalidTakes has calls that would take jobs.
func invalidTakes(c *client.Client) map[string]invalid {
	ctx, topics := context.Background(), fetchTopics("t")
	fetch := func(o client.FetchOptions) error { return errOf(c.Fetch(ctx, o)) }
	return map[string]invalid{
		"reserve: tiny lease":    {errOf(c.Reserve(ctx, 60, "t")), "invalid lease: 60ns is less than a millisecond; "},
		"reserve: topic":         {errOf(c.Reserve(ctx, 0, "")), "invalid topic: "},
		"reserve: one of topics": {errOf(c.Reserve(ctx, 0, "t", "")), "invalid topic: "},
		"reserve: no topics":     {errOf(c.Reserve(ctx, 0)), "invalid topics: "},
		"reserve: lease":         {errOf(c.Reserve(ctx, -1, "t")), "invalid lease: -1ns "},
		"reserve: long lease":    {errOf(c.Reserve(ctx, store.MaxLease+1, "t")), "invalid lease: 24h0m0.000000001s "},
		"fetch: no topics":       {fetch(client.FetchOptions{Max: 1}), "invalid topics: "},
		"fetch: topic":           {fetch(client.FetchOptions{Max: 1, Topics: append(topics, client.FetchTopic{})}), "invalid topic: "},
		"fetch: topic's max":     {fetch(client.FetchOptions{Max: 1, Topics: []client.FetchTopic{{Topic: "t", Max: -1}}}), "invalid topic's max: -1 "},
		"fetch: topic twice":     {fetch(client.FetchOptions{Max: 1, Topics: append(topics, topics...)}), "invalid topics: \"t\" is there twice"},
		"fetch: pop and lease":   {fetch(client.FetchOptions{Topics: topics, Pop: true, Lease: time.Minute}), "invalid pop: "},
		"fetch: pop, attempts":   {fetch(client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t", MaxAttempts: 2}}, Pop: true}), "invalid pop: "},
		"fetch: large max":       {fetch(client.FetchOptions{Topics: topics, Max: 251}), "invalid max: 251 "},
		"fetch: lease":           {fetch(client.FetchOptions{Topics: topics, Max: 1, Lease: -1}), "invalid lease: -1ns "},
		"fetch: timeout":         {fetch(client.FetchOptions{Topics: topics, Max: 1, Timeout: -1}), "invalid timeout: "},
		"fetch: attempts":        {fetch(client.FetchOptions{Topics: topics, Max: 1, MaxAttempts: math.MaxInt32 + 1}), "invalid max attempts: 2147483648 "},
		"pop: topic":             {errOf(c.Pop(ctx, "")), "invalid topic: "},
		"bpop: topic":            {errOf(c.BPop(ctx, 0, "")), "invalid topic: "},
		"bpop: timeout":          {errOf(c.BPop(ctx, -1, "t")), "invalid timeout: "},
	}
}

// invalidCallsOnJobs has calls on jobs, deliveries and dead letters.
func invalidCallsOnJobs(c *client.Client) map[string]invalid {
	ctx, d := context.Background(), c.Delivery("t", "a", 1)
	deliveries := []*client.Delivery{d}
	return map[string]invalid{
		"ack batch: nil":        {errOf(c.AckBatch(ctx, append(deliveries, nil))), "delivery 1: invalid delivery: it is none that a Client has given"},
		"ack batch: zero":       {errOf(c.AckBatch(ctx, append(deliveries, new(client.Delivery)))), "delivery 1: invalid delivery: it is none that a Client has given"},
		"extend batch: nil":     {errOf(c.ExtendBatch(ctx, []*client.Delivery{nil}, time.Hour)), "delivery 0: invalid delivery: "},
		"retry: delay":          {d.Retry(ctx, store.MaxDelay+1, nil), "invalid delay: 36500d1ns is more than 100 years"},
		"release: delay":        {d.Release(ctx, 1), "invalid delay: 1ns "},
		"extend: lease 0":       {d.Extend(ctx, 0), "invalid lease: 0s "},
		"extend: long lease":    {d.Extend(ctx, store.MaxLease+1), "invalid lease: 24h0m0.000000001s "},
		"extend batch: lease":   {errOf(c.ExtendBatch(ctx, nil, -1)), "invalid lease: -1ns "},
		"extend batch: unknown": {errOf(c.ExtendBatch(ctx, []*client.Delivery{c.Delivery("t", "a", 1)}, 0)), "invalid lease: 0 "},
		"dead: topic":           {deadError(c, ctx, ""), "invalid topic: "},
		"requeue: id":           {c.Requeue(ctx, ""), "invalid id: "},
		"requeue all: topic":    {errOf(c.RequeueAll(ctx, "")), "invalid topic: "},
		"drop all: topic":       {errOf(c.DropAll(ctx, "")), "invalid topic: "},
		"get: id":               {errOf(c.Get(ctx, "")), "invalid id: "},
		"remove: id":            {errOf(c.Remove(ctx, "")), "invalid id: "},
		"reschedule: id":        {c.Reschedule(ctx, "", time.Second), "invalid id: "},
		"reschedule: delay":     {c.Reschedule(ctx, "a", 1), "invalid delay: "},
	}
}

// A call with a nil context, or one that was done before the call, sends nothing.
func TestContextThatIsNilOrDone(t *testing.T) {
	f := start(t, alone)
	f.push("a", "t")
	got, err := f.Fetch(t.Context(), client.FetchOptions{Topics: fetchTopics("t"), NoWait: true}) // after a wait, checks would run
	check(t, err)
	d := got[0]
	scripts := f.Calls("evalsha")
	var none context.Context
	f.expectUnchanged(func() {
		for name, call := range allCalls(f.Client, none, d) {
			err := call()
			expectErr(t, name, err, client.ErrInvalid)
			expectText(t, name, err, "invalid ctx: it is nil")
		}
		for name, call := range allCalls(f.Client, done(t.Context()), d) {
			expectErr(t, name, call(), context.Canceled)
		}
	})
	if now := f.Calls("evalsha"); now != scripts {
		t.Errorf("%d scripts were sent", now-scripts)
	}
	check(t, d.Ack(t.Context()))
}

// allCalls returns all calls of a Client and on its deliveries.
func allCalls(c *client.Client, ctx context.Context, d *client.Delivery) map[string]func() error {
	all := calls(c, ctx)
	for name, settle := range verbs {
		all[name] = func() error { return settle(ctx, d) }
	}
	all["AckBatch"] = func() error { return errOf(c.AckBatch(ctx, []*client.Delivery{d})) }
	all["ExtendBatch"] = func() error { return errOf(c.ExtendBatch(ctx, []*client.Delivery{d}, time.Hour)) }
	all["PushBatch"] = func() error { return errOf(c.PushBatch(ctx, jobs(0, 1, "t", 0))) }
	all["Ping"] = func() error { return c.Ping(ctx) }
	return all
}

// calls returns all other calls of a Client, with valid arguments.
func calls(c *client.Client, ctx context.Context) map[string]func() error {
	m := client.Message{ID: "a", Topic: "t", Body: "b"}
	return map[string]func() error{
		"Push":       func() error { return errOf(c.Push(ctx, m, 0)) },
		"PushAt":     func() error { return errOf(c.PushAt(ctx, m, time.Now())) },
		"Pop":        func() error { return errOf(c.Pop(ctx, "t")) },
		"BPop":       func() error { return errOf(c.BPop(ctx, 0, "t")) },
		"Get":        func() error { return errOf(c.Get(ctx, "a")) },
		"Remove":     func() error { return errOf(c.Remove(ctx, "a")) },
		"Reschedule": func() error { return c.Reschedule(ctx, "a", time.Hour) },
		"Reserve":    func() error { return errOf(c.Reserve(ctx, time.Hour, "t")) },
		"Fetch":      func() error { return errOf(c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics("t"), Max: 1})) },
		"Dead":       func() error { return deadError(c, ctx, "t") },
		"Requeue":    func() error { return c.Requeue(ctx, "a") },
		"RequeueAll": func() error { return errOf(c.RequeueAll(ctx, "t")) },
		"DropAll":    func() error { return errOf(c.DropAll(ctx, "t")) },
		"Stats":      func() error { return errOf(c.Stats(ctx)) },
	}
}

// deadError returns the error with which Dead ends.
func deadError(c *client.Client, ctx context.Context, topic string) (err error) {
	for _, err = range c.Dead(ctx, topic) {
	}
	return err
}
