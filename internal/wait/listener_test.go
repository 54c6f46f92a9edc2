package wait

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// onRedis returns a Client's Dispatcher on the given Redis. end closes it and waits until all its
// goroutines have ended.
func onRedis(t *testing.T, log *redistest.Log, stores ...*store.Store) (dispatcher *Dispatcher, end func()) {
	closing, cancel := context.WithCancel(context.Background())
	abandoned, abandon := context.WithCancel(context.Background())
	running := new(sync.WaitGroup)
	owner := &batch.Owner{Running: running, Closed: errClosed}
	for _, s := range stores {
		s.EndWith(abandoned, errClosed)
	}
	dispatcher = New(closing, owner, Hooks{log.Logger(), func(store.Popped) {}, func(int) {}}, stores...)
	end = sync.OnceFunc(func() {
		cancel()
		dispatcher.Close()
		running.Wait()
		abandon()
	})
	t.Cleanup(end)
	return dispatcher, end
}

// taken is the result of a Take.
type taken struct {
	Jobs
	err error
}

// waits starts a Take that waits for a job of the topic.
func waits(t *testing.T, ctx context.Context, dispatcher *Dispatcher, topic string) <-chan taken {
	t.Helper()
	result := make(chan taken, 1)
	go func() {
		got, err := dispatcher.Take(ctx, Request{Topics: []string{topic}, N: 1, Waits: true})
		result <- taken{got, err}
	}()
	redistest.Until(t, "it waits", func() bool { s := dispatcher.ForTests().State(topic); return s.Waiting == 1 && s.Registered })
	redistest.Until(t, "it has looked", func() bool { return dispatcher.ForTests().State("").Checks > 0 })
	return result
}

// A listener wakes its callers, finds jobs without a message, passes on wake-ups that its callers cannot use, and reports
// an outage to its callers.
func TestListener(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	st := store.New(f.Pool(), store.DefaultPrefix)
	var log redistest.Log
	first, endFirst := onRedis(t, &log, st)
	second, endSecond := onRedis(t, &log, st)
	ready := func(id string, woken bool) {
		f.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
		f.Do("LPUSH", "delayer:ready_queue:t", id)
		if woken {
			f.Do("EVAL", `local first = redis.call('ZPOPMIN', 'delayer:waiters:t')[1]
				return redis.call('PUBLISH', 'delayer:wake:' .. first, '1 t')`, 0)
		}
	}
	expect := func(result <-chan taken, id string) {
		t.Helper()
		if got := redistest.Receive(t, result); got.err != nil || got.Jobs.Jobs[0].ID != id {
			t.Fatalf("%+v", got)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	one := waits(t, ctx, first, "t")
	ready("woken", true)
	expect(one, "woken")
	one = waits(t, ctx, first, "t")
	ready("silent", false)
	expect(one, "silent")

	one = waits(t, ctx, first, "t")
	two := waits(t, t.Context(), second, "t")
	cancel()
	if got := redistest.Receive(t, one); !errors.Is(got.err, context.Canceled) {
		t.Fatalf("%+v", got)
	}
	f.Do("HSET", "delayer:servers", "one", "runs")
	checks := second.ForTests().State("").Checks
	second.ForTests().Calm()
	redistest.Until(t, "it checks seldom then", func() bool { return second.ForTests().State("").Checks > checks })
	checks = second.ForTests().State("").Checks
	ready("passed on", true)
	expect(two, "passed on")
	if n := second.ForTests().State("").Checks - checks; n > 0 {
		t.Errorf("it took %d checks", n)
	}

	if !testing.Short() { // an outage is reported after RetryWindow
		two = waits(t, t.Context(), second, "t")
		f.Kill()
		if got := redistest.Receive(t, two); got.err == nil || errors.Is(got.err, store.ErrEmpty) {
			t.Errorf("of an outage: %+v", got)
		}
	}
	endFirst()
	endSecond()
}

// A listener without permission to subscribe polls, and logs that once.
func TestRefusedListener(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	f.SetUser("~* +@all resetchannels")
	var log redistest.Log
	dispatcher, end := onRedis(t, &log, store.New(f.UserPool(), store.DefaultPrefix))
	result := make(chan taken, 1)
	go func() {
		got, err := dispatcher.Take(t.Context(), Request{Topics: []string{"t"}, N: 1, Waits: true})
		result <- taken{got, err}
	}()
	redistest.Until(t, "it polls", func() bool { return dispatcher.ForTests().State("").Refused })
	dispatcher.ForTests().SubscribeAgain()
	checks := dispatcher.ForTests().State("").Checks
	redistest.Until(t, "it has asked again", func() bool { return dispatcher.ForTests().State("").Checks > checks+2 })
	f.Do("HSET", "delayer:job_bucket:a", "topic", "t", "body", "b")
	f.Do("LPUSH", "delayer:ready_queue:t", "a")
	if got := redistest.Receive(t, result); got.err != nil {
		t.Errorf("%+v", got)
	}
	log.Expect(t, 1, "may not subscribe")
	end()
}

// A listener registers its program once per subscription and removes the registration when it ends.
func TestListenerTellsWhoItIs(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	dispatcher, end := onRedis(t, new(redistest.Log), store.New(f.Pool(), store.DefaultPrefix))
	result := waits(t, t.Context(), dispatcher, "t")
	registered := func() []string { return f.Strings("KEYS", "delayer:client:*") }
	isThere := func() bool { return len(registered()) == 1 }
	redistest.Until(t, "it is registered", isThere)
	me := store.ThisProgram()
	if got := f.Strings("LRANGE", registered()[0], 0, -1); !slices.Equal(got, []string{me.Host, fmt.Sprint(os.Getpid()), me.Name}) || me.Name == "" {
		t.Errorf("it says %q", got)
	}
	f.Do("DEL", registered()[0])
	checks := dispatcher.ForTests().State("").Checks
	redistest.Until(t, "it has looked twice", func() bool { return dispatcher.ForTests().State("").Checks >= checks+2 })
	if isThere() {
		t.Error("it registers with a check")
	}
	f.Do("CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Until(t, "it is registered anew", isThere)
	end()
	<-result
	if isThere() {
		t.Errorf("%q stays", registered())
	}
}
