package store

import (
	"context"
	"testing"
	"time"
)

// onRedisAs is onRedis with a second backend for a user who may do everything.
func onRedisAs(t *testing.T) (b, user *backend) {
	b, _ = onRedis(t, alone)
	b.SetUser("~* &* +@all")
	return b, b.user()
}

// reserves calls Reserve and returns its error.
func reserves(ctx context.Context, s *Store) error {
	_, err := s.Reserve(Wanted{Topics: []string{"t"}, N: 5}, Reservation{}).Do(ctx)
	return err
}

// letterD seeds a dead letter of topic t.
var letterD = []command{
	{"HSET", "delayer:dead_letter:d", "topic", "t", "body", "body of d", "reason", "r", "died", "1000"},
	{"ZADD", "delayer:dead_letters:t", "1000", "d"}, {"ZADD", "delayer:dead_topics", "1000", "t"},
}

// TestReserveWithoutPermission is TestWithoutPermission for reserved jobs and dead letters.
func TestReserveWithoutPermission(t *testing.T) {
	t.Parallel()
	b, user := onRedisAs(t)
	ctx := t.Context()
	verb := func(name string) func(LeaseRef) error {
		return func(held LeaseRef) error { return user.settleAs(t, name, held) }
	}
	for _, c := range []struct {
		name     string
		commands string // all commands that the script requires
		seed     []command
		call     func(LeaseRef) error
	}{
		{"reserve", "lrange hmget zmscore rpop zadd hset time pttl", ready("r", "t"), func(LeaseRef) error { return reserves(ctx, user.Store) }},
		{"reserve of a short-lived job", "pexpire hset", append(ready("r", "t"), command{"PEXPIRE", "delayer:job_bucket:r", 60000}), func(LeaseRef) error { return reserves(ctx, user.Store) }},
		{"reserve of a short-lived job behind another", "pexpire", append(ready("r", "t"), append(ready("s", "t"), command{"PEXPIRE", "delayer:job_bucket:s", 60000})...), func(LeaseRef) error { return reserves(ctx, user.Store) }},
		{"reserve of an exhausted job", "zadd", append(ready("r", "t"), field("r", "options", "1 0 604800000", "lease", "1 5 0")...), func(LeaseRef) error { return reserves(ctx, user.Store) }},
		{"ack", "zmscore hmget zrem del time", nil, verb("ack")},
		{"retry", "zmscore hmget zadd zrem pttl pexpire hset time", nil, verb("retry")},
		{"release", "zmscore hmget zrem pttl pexpire hset time", nil, verb("release")},
		{"retry of the last attempt", "zadd rename zrem hmget", field("h", "options", "1 0 604800000"), verb("retry")},
		{"extend", "zscore hmget zadd zrem pttl pexpire hset time", nil, verb("extend")},
		{"bury", "zmscore hmget zadd zrem rename time", nil, verb("bury")},
		{"requeue", "hget exists rename lpush zrem hdel hset pexpire", letterD, func(LeaseRef) error { return errorOf(user.Requeue(ctx, []string{"d"}, time.Hour)) }},
		{"drop of a dead letter", "zmscore del zrem", letterD, func(LeaseRef) error { _, err := user.DropDead(ctx, "t", []string{"d"}, time.Time{}); return err }},
		{"remove of a dead letter", "hget del zrem zscore", letterD, func(LeaseRef) error { _, err := user.remove(ctx, "d"); return err }},
		{"dead letters", "hmget zrevrange", letterD, func(LeaseRef) error {
			_, err := user.Browse(ctx, Browse{Topic: "t", State: "dead", Jobs: 10, Entries: 10, Whole: true})
			return err
		}},
		{"each dead letter", "zrange zrevrange hmget", letterD, func(LeaseRef) error {
			_, err := user.Browse(ctx, Browse{Topic: "t", State: "dead", Jobs: 1, Entries: 1, Stale: true})
			if err == nil {
				_, err = user.Browse(ctx, Browse{Topic: "t", State: "dead", Jobs: 10, Entries: 10, Oldest: true, Stale: true})
			}
			return err
		}},
		{"expiry of dead letters", "time zrange zcount zrangebyscore del zrem", letterD, func(LeaseRef) error { _, _, err := user.ExpireDead(ctx, time.Hour, 0, DeadPosition{}); return err }},
		{"stats", "zcard", letterD, func(LeaseRef) error { _, err := user.Stats(ctx, []string{"t"}, true); return err }},
		{"known topics", "zrange zcard", letterD, func(LeaseRef) error { _, _, err := user.KnownTopics(ctx, 10, ""); return err }},
		{"reschedule of a reserved job", "time hget zscore pttl type zadd pexpire", nil, func(LeaseRef) error { return user.Reschedule(ctx, "h", time.Hour) }},
		{"remove of a reserved job", "hget zscore del zrem", nil, func(LeaseRef) error { _, err := user.remove(ctx, "h"); return err }},
		{"push of a reserved job", "hget zscore hset pexpire zadd", nil, func(LeaseRef) error {
			return user.push(ctx, Job{ID: "h", Topic: "t", Body: "b"}, Due{After: time.Hour}, kept, Replace)
		}},
	} {
		for _, followed := range []string{"", ", followed,"} {
			b.withoutEach(t, c.name+followed, c.commands, func(t *testing.T) func() error {
				b.seed(t, ready("h", "h"), c.seed)
				held, _ := b.hold(t, "h", time.Minute)
				held.Topic = "h"
				if followed != "" {
					made(t, b.Push([]Delayed{{Job{ID: "h", Topic: "h", Body: "new"}, Due{}, Terms{Lifetime: kept, Policy: Follow}, nil}}))
				}
				return func() error { return c.call(held) }
			})
		}
	}
}

// A job that can't be buried because its list has another type stays reserved, and the call returns the error.
func TestBrokenDeadLetters(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("a", "t"), field("a", "options", "1 0 604800000"), text("dead_letters:t"))
		held, _ := b.hold(t, "t", time.Minute)
		was := b.state(t)
		for _, verb := range []string{"bury", "retry"} {
			err := b.settleAs(t, verb, held)
			b.expectError(t, err, "WRONGTYPE ")
			b.expect(t, was)
		}
	})
}
