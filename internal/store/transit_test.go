package store

import (
	"strings"
	"testing"
	"time"
)

// TestTransitWithoutPermission puts jobs in transit, adopts them and ends the batch, each as a user who lacks one of the script's commands:
// Redis refuses the call and nothing changes. Two of the jobs were pushed again by a client that does not know leases, so their lease
// fields are deleted on the way.
func TestTransitWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.SetUser("~* &* +@all")
	user := b.user()
	ctx := t.Context()
	from := New(b.Pool(), "other:")
	oldLease := func(id string) []command { return field(id, "lease", "1 5 0 1") }
	seed := [][]command{ready("x", "t"), waits("w", "t", 3600*second), oldLease("w"), ready("r", "t"), oldLease("r"), ready("r2", "t"), waits("a", "t", 3600*second),
		{{"ZADD", "delayer:once", "99999999999999", "o"}}}
	inTransit := []string{"a", "d", "o", "x"}
	var batch Transit // what is in transit before the call
	for _, c := range []struct {
		name     string
		before   []string // IDs in transit before the call
		commands string   // without which the script can't do its work
		call     func() error
	}{
		{"put in transit", nil, "hlen exists zscore hget zrem rename hset hstrlen hdel hgetall pttl", func() error {
			return errOf(user.PutInTransit([]string{"w", "r", "d", "o", "x", GroupTag("t", "k")}, true).Do(ctx))
		}},
		{"put ready jobs in transit", nil, "hlen type hget zscore lrange ltrim rpush lpush rename hset hstrlen hdel hgetall pttl", func() error {
			return errOf(user.PutReadyInTransit(user.Keys().ReadyQueue("t"), []string{"r"}, []string{"r2"}).Do(ctx))
		}},
		{"adopt", inTransit, "hget zrem exists del hset pexpire zadd", func() error { return errOf(user.Adopt(from, 7, batch.Jobs).Do(ctx)) }},
		{"end the transit", inTransit, "hget hlen hkeys hset del", func() error { return errOf(user.EndTransit(batch.Serial, batch.Serial).Do(ctx)) }},
	} {
		for command := range strings.FieldsSeq("evalsha " + c.commands) {
			t.Run(c.name+" without "+command, func(t *testing.T) {
				b.seed(t, seed...)
				b.hold(t, "t", time.Minute) // reserves x
				b.died(t, "t", "d", time.Hour)
				b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Hour}))
				if c.before != nil {
					batch = made(t, b.PutInTransit(c.before, true))
				}
				b.expectDenied(t, command, c.call)
			})
		}
	}
}
