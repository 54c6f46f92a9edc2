package store

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A batch that its queue refuses is put back, whole and in order, due from the given time on: ten jobs per millisecond. This holds for
// batches of any size, and for queues that are broken or not permitted.
func TestMovePutsBack(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.SetUser("~* &* +@all -lpush")
	user := b.user()
	for _, jobs := range []int{1, 10, 11, 3499, 3500, 3501, 20000} {
		for name, c := range map[string]struct {
			as    *backend
			queue []command
			kind  Kind
		}{
			"broken queue":  {b, text("ready_queue:t"), WrongType},
			"without LPUSH": {user, ready("r", "t"), Denied},
		} {
			t.Run(fmt.Sprint(jobs, " jobs, ", name), func(t *testing.T) {
				b.seed(t, c.queue)
				before := b.state(t)
				all, ids := Batch{Topic: "t"}, []string(nil)
				for n := range jobs {
					id := fmt.Sprintf("%05d", n)
					ids, all.IDs = append(ids, id), append(all.IDs, []byte(id))
					b.Conn().Send("ZADD", "delayer:job_pool", n, id)
				}
				b.do(t, "")
				retry := time.UnixMilli(1700000000123)
				got, err := c.as.Move(all, time.Now(), time.Now(), retry).Do(t.Context())
				if err != nil || got.PutBack != jobs || len(got.IDs) > 0 || got.Skipped > 0 || got.CantPublish != nil {
					t.Fatalf("%d put back, %d moved, %d left, %v, %v", got.PutBack, len(got.IDs), got.Skipped, got.CantPublish, err)
				}
				if KindOf(got.Refused) != c.kind {
					t.Errorf("reason %v, want one of kind %d", got.Refused, c.kind)
				}
				if !strings.HasSuffix(got.Refused.Error(), " (ready queue delayer:ready_queue:t)") {
					t.Errorf("reason %q does not name the queue", got.Refused)
				}
				before.Pool = ids
				b.expect(t, before)
				for id, score := range b.scores(t) {
					due, _ := strconv.ParseFloat(score, 64)
					n, _ := strconv.Atoi(id)
					if want := int64(1700000000123 + n/10); math.Abs(due*1000-float64(want)) > 1e-3 {
						t.Fatalf("job %s is due at %s, want %d ms", id, score, want)
					}
				}
			})
		}
	}
}

// A job that was pushed again after it was found stays in the pool, even if it is due again when it would be moved: its topic may have
// changed.
func TestMovePushedAnew(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("a", "t", -3*second), waits("b", "t", -2*second), waits("c", "t", -second))
		found, err := b.dueJobs(Query{Limit: 9})
		if err != nil || len(found.Batches) != 1 {
			t.Fatal(found, err)
		}
		now := b.clock(t)
		for b.clock(t) < found.score()+0.001 {
		}
		again := strconv.FormatFloat(now+0.001, 'f', 3, 64)
		b.do(t, "HSET", "delayer:job_bucket:b", "topic", "u")
		b.do(t, "ZADD", "delayer:job_pool", again, "b")
		for b.clock(t) < now+0.002 {
		}
		got, err := b.Move(found.Batches[0], found.Now, found.Now, time.Now()).Do(t.Context())
		if err != nil || !slices.Equal(got.IDs.Strings(), []string{"a", "c"}) || got.Skipped != 1 {
			t.Errorf("moved %q, left %d, %v", got.IDs.Strings(), got.Skipped, err)
		}
		b.expect(t, redistest.State{
			Pool: []string{"b"}, Ready: map[string][]string{"t": {"a", "c"}},
			Buckets: map[string]string{"a": "t body of a", "b": "u body of b", "c": "t body of c"},
		})
		// It is found under its new topic.
		found, err = b.dueJobs(Query{Limit: 9})
		if want := []Batch{batch("u", "b")}; err != nil || len(found.Batches) != 1 || found.Batches[0].Topic != "u" || found.Count != (Counts{Backlog: 1}) {
			t.Errorf("found %v, %v, want %v", found.Batches, err, want)
		}
	})
}

func (d DueJobs) score() float64 { return float64(d.Now.UnixMicro()) / 1e6 }

// Redis measures the time of batches of at least MinTimed jobs.
func TestMoveTakesTheTime(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for jobs, timed := range map[int]bool{1: false, MinTimed - 1: false, MinTimed: true} {
		all := Batch{Topic: "t"}
		b.seed(t)
		for n := range jobs {
			all.IDs = append(all.IDs, []byte(fmt.Sprint(n)))
			b.do(t, "ZADD", "delayer:job_pool", 1, n)
		}
		if got, err := b.move(all); err != nil || len(got.IDs) != jobs || (got.Took > 0) != timed {
			t.Errorf("%d of %d jobs took %v, %v", len(got.IDs), jobs, got.Took, err)
		}
	}
}

// A missing permission to announce is reported and does not fail the move.
func TestMoveSilently(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	user := b.user()
	for _, rights := range [][]any{{"resetchannels"}, {"resetchannels", "&delayer:first_due"}, {"allchannels", "-publish"}} {
		b.seed(t, waits("a", "t", -second), waiter("t", "c"))
		b.do(t, "ACL", append([]any{"SETUSER", "u", "reset", "on", ">p", "~*", "+@all"}, rights...)...)
		got, err := user.move(batch("t", "a"))
		if err != nil || len(got.IDs) != 1 || got.CantPublish == nil || got.Refused != nil {
			t.Errorf("%v: %+v, %v", rights, got, err)
		}
		b.expect(t, redistest.State{Ready: map[string][]string{"t": {"a"}}, Buckets: map[string]string{"a": "t body of a"}})
	}
}

// A missing permission for a queue or a bucket puts its jobs back. TestWithoutPermission covers missing commands.
func TestMoveWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	user := b.user()
	content := map[string]string{"w": "t body of w", "d": "t body of d", "r": "t body of r"}
	pool := func(ids ...string) redistest.State {
		return redistest.State{Pool: ids, Ready: queues{"t": {"r"}}, Buckets: content}
	}
	unchanged := pool("orphan", "d", "w")
	due := func() (error, error) { return nil, errOf(user.dueJobs(Query{Limit: 9})) }
	move := func() (error, error) { m, err := user.move(batch("t", "d")); return m.Refused, err }
	drop := func() (error, error) { d, err := user.drop("orphan"); return d.Refused, err }
	for _, c := range []struct {
		name, rights string
		call         func() (refused, err error)
		want         redistest.State
		putsBack     bool // otherwise the call is refused
	}{
		{"due, no pool", "~delayer:job_bucket:*", due, unchanged, false},
		{"due, pool read only", "%R~delayer:*", due, unchanged, false},
		{"move, no queue", "~delayer:job_pool", move, pool("orphan", "w", "d"), true},
		{"move, queue read only", "~delayer:job_pool %R~delayer:ready_queue:*", move, pool("orphan", "w", "d"), true},
		{"move, pool read only", "%R~delayer:job_pool ~delayer:ready_queue:*", move, unchanged, false},
		{"drop, no bucket", "~delayer:job_pool ~delayer:job_bucket:d", drop, pool("d", "w", "orphan"), true},
		{"drop, pool read only", "%R~delayer:job_pool ~delayer:job_bucket:*", drop, unchanged, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.seed(t, waits("w", "t", 60*second), waits("d", "t", -second), ready("r", "t"), []command{{"ZADD", "delayer:job_pool", -2 * second, "orphan"}})
			b.SetUser("~* &* +@all resetkeys " + c.rights)
			refused, err := c.call()
			if (refused != nil) != c.putsBack || (err != nil) == c.putsBack || err != nil && !Refused(err) {
				t.Errorf("put back as %v, error %v", refused, err)
			}
			b.expect(t, c.want)
		})
	}
}

// An ID that is empty, or that resembles an option of a Redis command, is moved like any other.
func TestMoveOddIDs(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		odd := []string{"", "XX", "GT", "-inf", "\x00", "a b", "{x}"}
		var seed [][]command
		for n, id := range odd {
			seed = append(seed, waits(id, "t", after(n-20)*second))
		}
		b.seed(t, seed...)
		found, err := b.dueJobs(Query{Limit: 99})
		check(t, err)
		if got, err := b.move(found.Batches[0]); err != nil || !slices.Equal(got.IDs.Strings(), odd) {
			t.Errorf("moved %q, %v", got.IDs.Strings(), err)
		}
	})
}

// A waiting job with the empty ID keeps waiting, although the scripts use that ID to test whether they may write.
func TestEmptyIDWaits(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("", "t", 60*second))
		was := b.scores(t)
		_, dueErr := b.dueJobs(Query{Limit: 9})
		_, moveErr := b.move(batch("t", "gone"))
		_, dropErr := b.drop("gone")
		check(t, errors.Join(dueErr, moveErr, dropErr))
		if got := b.scores(t); !maps.Equal(got, was) {
			t.Errorf("scores %q, were %q", got, was)
		}
	})
}

// A job whose bucket can't be read is put back unless it was rescheduled after it was found.
func TestDropUnreadable(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, waits("a", "t", -3*second), waits("anew", "t", 60*second), waits("b", "t", -second))
	b.SetUser("~delayer:job_pool +@all")
	user := b.user()
	was := b.scores(t)
	retry := time.UnixMilli(1700000000123)
	got, err := user.Drop(batch("", "b", "gone", "anew", "a").IDs, time.Now(), retry).Do(t.Context())
	if want := []string{"b", "a"}; err != nil || !slices.Equal(got.PutBack.Strings(), want) || len(got.IDs) > 0 || !strings.HasSuffix(got.Refused.Error(), " (job bucket delayer:job_bucket:a)") {
		t.Errorf("put back %q, dropped %q, %v, %v, want %q", got.PutBack.Strings(), got.IDs.Strings(), got.Refused, err, want)
	}
	scores := b.scores(t)
	for _, id := range []string{"a", "b"} { // Redis 7.0 returns 1700000000.1229999
		if due, err := strconv.ParseFloat(scores[id], 64); err != nil || due != 1700000000.123 {
			t.Errorf("score of %s is %s", id, scores[id])
		}
		was[id] = scores[id]
	}
	if !maps.Equal(scores, was) {
		t.Errorf("scores %q, want %q", scores, was)
	}
}
