package store

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// subscribed returns a subscription that ends with the test.
func (b *backend) subscribed(t *testing.T, pingAfter time.Duration, channels ...string) *Subscription {
	t.Helper()
	sub, err := b.Subscribe(t.Context(), pingAfter, channels...)
	check(t, err)
	t.Cleanup(func() { sub.Close() })
	return sub
}

// expectEvents receives these events.
func expectEvents(t *testing.T, sub *Subscription, want ...Event) {
	t.Helper()
	for _, want := range want {
		got, err := sub.Receive()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func heard(channel string) Event                            { return Event{Channel: channel, Subscribed: true} }
func told(channel, words string) Event                      { return Event{Channel: channel, Data: []byte(words)} }
func (b *backend) tell(t *testing.T, channel, words string) { b.do(t, "PUBLISH", channel, words) }

// A subscription receives the messages on its current channels, in order and with any bytes.
func TestSubscription(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		first, second, odd, more := b.Prefix+"a", b.Prefix+"b", b.Prefix+"c \r\n", b.Prefix+"d" // all tests on a Redis share its channels
		sub := b.subscribed(t, time.Minute, first, second)
		expectEvents(t, sub, heard(first), heard(second))
		b.tell(t, second, "1")
		b.tell(t, b.Prefix+"nobody's", "2")
		b.tell(t, first, "\x00\xff\r\n")
		b.tell(t, first, "")
		expectEvents(t, sub, told(second, "1"), told(first, "\x00\xff\r\n"), told(first, ""))

		check(t, errors.Join(sub.Add(odd), sub.Remove(second, "never asked for"), sub.Add(more)))
		expectEvents(t, sub, heard(odd), heard(more))
		b.tell(t, second, "not heard")
		b.tell(t, odd, "heard")
		expectEvents(t, sub, told(odd, "heard"))
	})
}

// A subscription without channels, at first or later, stays open, and channels can be added.
func TestSubscriptionWithoutChannels(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		sub := b.subscribed(t, 5*time.Millisecond)
		for n := range 3 {
			channel := fmt.Sprint(b.Prefix, n)
			time.AfterFunc(30*time.Millisecond, func() { sub.Add(channel) }) // after some PINGs
			expectEvents(t, sub, heard(channel))
			sub.Remove(channel)
		}
	})
}

// After silence a subscription tests its connection and continues if it is alive.
func TestSubscriptionPings(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	sub := b.subscribed(t, 5*time.Millisecond, "a")
	expectEvents(t, sub, heard("a"))
	go func() {
		for range 10000 {
			if server.Calls("ping") >= 3 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		server.Do("PUBLISH", "a", "after the pings")
	}()
	expectEvents(t, sub, told("a", "after the pings"))
	if n := server.Calls("ping"); n < 3 {
		t.Errorf("%d PINGs", n)
	}
}

// A connection that receives nothing, not even the answer to a PING, ends the subscription.
func TestSubscriptionEndsWithADeadConnection(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t, alone)
	sub := b.subscribed(t, time.Millisecond, "a")
	expectEvents(t, sub, heard("a"))
	server.Hang()
	defer server.Continue()
	if event, err := sub.Receive(); err == nil {
		t.Errorf("heard %+v from a Redis that hangs", event)
	}
	if err := sub.Add("b"); err == nil {
		t.Error("Add works on a dead connection")
	}
}

// Close, a killed connection and a killed Redis end a waiting Receive.
func TestSubscriptionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Subscription, *redistest.Server){
		"closed":            func(sub *Subscription, _ *redistest.Server) { sub.Close() },
		"connection killed": func(_ *Subscription, r *redistest.Server) { r.Do("CLIENT", "KILL", "TYPE", "pubsub") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, server := onRedis(t, alone)
			sub := b.subscribed(t, time.Minute, "a")
			expectEvents(t, sub, heard("a"))
			ended := make(chan error)
			go func() {
				_, err := sub.Receive()
				ended <- err
			}()
			end(sub, server)
			if err := <-ended; err == nil {
				t.Error("Receive heard something")
			}
		})
	}
}

// A channel that the user may not subscribe to is reported and does not affect the others. A missing permission for PING does not end the
// subscription.
func TestSubscriptionWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	user := func(rights string) *backend {
		b.SetUser("~* " + rights)
		return b.user()
	}
	expectRefused := func(sub *Subscription, channel string) {
		t.Helper()
		if event, err := sub.Receive(); err != nil || event.Channel != channel || !Refused(event.Refused) {
			t.Fatalf("got %+v, %v, want that %s is refused", event, err, channel)
		}
	}

	sub := user("+@all -ping resetchannels &a &c").subscribed(t, 5*time.Millisecond, "a", "b", "c")
	expectEvents(t, sub, heard("a"))
	expectRefused(sub, "b")
	expectEvents(t, sub, heard("c"))
	time.AfterFunc(30*time.Millisecond, func() { sub.Add("d") }) // after some PINGs
	expectRefused(sub, "d")
	b.tell(t, "c", "heard")
	expectEvents(t, sub, told("c", "heard"))

	sub = user("+@all -subscribe -unsubscribe allchannels").subscribed(t, time.Minute, "a")
	expectRefused(sub, "a")
	sub.Remove("a")
	sub.Add("b")
	expectRefused(sub, "b")
}

// Many goroutines add and remove channels during a Receive with PINGs. In the end every remaining channel is subscribed.
func TestSubscriptionConcurrently(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const goroutines, rounds = 8, 50
		sub := b.subscribed(t, time.Millisecond)
		name := func(n, g int) string { return fmt.Sprintf("%s%d of %d", b.Prefix, n, g) }
		var all sync.WaitGroup
		for g := range goroutines {
			all.Go(func() {
				for n := range rounds {
					channel := name(n, g)
					check(t, sub.Add(channel))
					if n < rounds-1 {
						check(t, sub.Remove(channel))
					}
				}
			})
		}
		for range goroutines * rounds {
			if event, err := sub.Receive(); err != nil || !event.Subscribed {
				t.Fatal(event, err)
			}
		}
		all.Wait()
		for g := range goroutines {
			b.tell(t, name(rounds-2, g), "not heard")
			last := name(rounds-1, g)
			b.tell(t, last, "heard")
			expectEvents(t, sub, told(last, "heard"))
		}
	})
}
