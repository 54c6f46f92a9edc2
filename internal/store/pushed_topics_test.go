package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// original seeds a plain job that is due, as the original's clients push it, and keeps for an hour.
func original(id, topic string) []command {
	bucket := "delayer:job_bucket:" + id
	return []command{{"HMSET", bucket, "topic", topic, "body", "body of " + id}, {"EXPIRE", bucket, 3600}, {"ZADD", "delayer:job_pool", -second, id}}
}

// Plain jobs are buried before they expire where clients of ours push: in a topic that both push to, the original's are, too. Where only the
// original's clients push, jobs expire as with its server.
func TestPlainJobsThatExpire(t *testing.T) {
	for _, paused := range []bool{false, true} {
		t.Run(fmt.Sprint("paused ", paused), func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t, original("guest", "mixed"), original("old", "old"))
				own, host := aJob("own", "ours", 0), aJob("host", "mixed", time.Hour)
				own.Lifetime, host.Lifetime = DefaultLifetime, DefaultLifetime
				made(t, b.Push([]Delayed{own, host}))
				b.moveDue(t)
				if paused {
					for _, topic := range []string{"ours", "mixed", "old"} {
						check(t, errOf(b.Pause(topic, time.Hour, "").Do(t.Context())))
					}
				}
				want := redistest.State{
					Pool: []string{"host"}, Ready: queues{"ours": {"own"}, "mixed": {"guest"}, "old": {"old"}},
					Buckets: buckets{"own": "ours b", "host": "mixed b", "guest": "mixed body of guest", "old": "old body of old"},
				}
				last := redistest.State{
					Pool: []string{"host"}, Ready: queues{"old": {"old"}}, Buckets: buckets{"host": "mixed b", "old": "old body of old"},
					Dead: queues{"ours": {"own"}, "mixed": {"guest"}}, Letters: buckets{"own": "ours b", "guest": "mixed body of guest"},
				}
				for _, s := range []*redistest.State{&want, &last} {
					if paused {
						s.Ready, s.Paused = nil, s.Ready
					}
				}
				for _, left := range []time.Duration{3 * time.Minute, time.Minute} {
					b.sweepAll(t)
					b.expect(t, want)
					for _, id := range []string{"own", "guest", "old"} {
						b.do(t, "PEXPIRE", "delayer:job_bucket:"+id, left.Milliseconds())
					}
				}
				b.sweepAll(t)
				b.expect(t, last)
			})
		})
	}
}

// What clients of ours, schedules and imports push registers its topic as theirs. Nothing that is done with the original's jobs does. The topic is
// removed when it is forgotten.
func TestPushedTopics(t *testing.T) {
	for _, c := range []struct {
		name string
		does func(t *testing.T, b *backend)
		ours bool
	}{
		{"push", func(t *testing.T, b *backend) { made(t, b.Push([]Delayed{aJob("a", "t", time.Hour)})) }, true},
		{"push of several", func(t *testing.T, b *backend) { made(t, b.Push([]Delayed{aJob("a", "t", 0), aJob("b", "t", 0)})) }, true},
		{"group", func(t *testing.T, b *backend) { b.grouped(t, toGroup("t", "k", "0", Group{Longest: time.Hour})) }, true},
		{"schedule", func(t *testing.T, b *backend) {
			s := b.put(t, aSchedule("a"), b.time(-second))
			b.fire(t, Firing{Scheduled: s, Upcoming: b.time(60 * second), Occurrences: []FiredOccurrence{ran(b.time(-second))}})
		}, true},
		{"schedule by hand", func(t *testing.T, b *backend) {
			b.put(t, aSchedule("a"), b.time(60*second))
			check(t, errOf(b.RunSchedule(t.Context(), "a")))
		}, true},
		{"import", func(t *testing.T, b *backend) {
			made(t, b.Restore([]Record{{Kind: RecordReady, ID: "a", TTL: time.Hour, Fields: texts{"topic": "t", "body": "b"}}}, false))
		}, true},
		{"move, retry and pause of the original's", func(t *testing.T, b *backend) {
			b.seed(t, original("a", "t"))
			b.moveDue(t)
			held, _ := b.hold(t, "t", time.Minute)
			check(t, errorOf(b.Retry([]Returned{{LeaseRef: held, Delay: 5 * time.Hour}}).Do(t.Context())))
			check(t, errOf(b.Pause("t", time.Hour, "").Do(t.Context())))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t)
				c.does(t, b)
				var want []string
				if c.ours {
					want = []string{"t"}
				}
				pushed := func() []string { return b.With(t).Strings("ZRANGE", b.keys.PushedTopics(), 0, -1) }
				if got := pushed(); !slices.Equal(got, want) {
					t.Errorf("topics of ours are %q, want %q", got, want)
				}
				b.seed(t, pushedTo("t"), pushedTo("busy"))
				b.enterTopic(t, "t", 2*time.Hour)
				b.enterTopic(t, "busy", 0)
				b.sweepAll(t)
				if got := pushed(); !slices.Equal(got, []string{"busy"}) {
					t.Errorf("%q are left, want only the topic in use", got)
				}
			})
		})
	}
}
