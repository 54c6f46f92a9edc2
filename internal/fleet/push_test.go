package fleet

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// forgetting is a connection on which Redis does not know the script of one call.
type forgetting struct {
	redis.ConnWithContext
	unknown int
	sent    *int
}

func (c forgetting) Send(command string, args ...any) error {
	if *c.sent++; command == "EVALSHA" && *c.sent == c.unknown {
		args[0] = "ffffffffffffffffffffffffffffffffffffffff"
	}
	return c.ConnWithContext.Send(command, args...)
}

// chunkOfOne makes a chunk of each run of jobs with different IDs, and one of each push to a group.
var chunkOfOne = batch.Kind[store.Delayed]{
	Measure: func(job store.Delayed) (string, int) { return job.ID, 0 },
	Alike:   func(a, b store.Delayed) bool { return a.IsGrouped() == b.IsGrouped() },
}

// PushAll keeps the order of its pushes to a group, even if Redis learns the script between two of its chunks.
func TestPushesToAGroupKeepTheirOrder(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	toGroup := func(key, body string) store.Delayed {
		return store.Delayed{Job: store.Job{ID: store.GroupTag("t", key), Topic: "t", Body: body}, Due: store.Due{After: time.Hour},
			Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace, Group: store.Group{Longest: time.Hour}}, Told: new(store.Told)}
	}
	for others := range 2 { // chunks of other pushes before the first to the group
		server.Do("FLUSHALL")
		sent := 0
		s := store.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := redis.DialContext(ctx, "tcp", server.Addr)
			if err != nil {
				return nil, err
			}
			return forgetting{conn.(redis.ConnWithContext), others + 1, &sent}, nil
		}}, store.DefaultPrefix)
		check(t, errors.Join(made(t, s.Push([]store.Delayed{toGroup("other", "0")}))...)) // Redis knows the script now
		sent = 0
		jobs := slices.Repeat([]store.Delayed{delayed("j", "t", time.Hour)}, others)
		for i := range 4 {
			jobs = append(jobs, toGroup("k", strconv.Itoa(i)))
		}
		check(t, errors.Join(PushAll(t.Context(), chunkOfOne, jobs, func(int) *store.Store { return s }, nil)...))
		if got := slices.Collect(maps.Values(server.State().Buckets)); !slices.Contains(got, "t [0,1,2,3]") {
			t.Errorf("behind %d others: %q", others, got)
		}
	}
}

// After the error of a chunk no further one is sent, and the jobs that are left have that error.
func TestPushAllEndsWithAnError(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	var jobs []store.Delayed
	for _, id := range []string{"a", "forbidden", "b", "c", "d"} {
		jobs = append(jobs, delayed(id, "t", time.Hour))
	}
	b.do(t, "ACL", "SETUSER", "default", "resetkeys", "~delayer:job_pool", "~delayer:job_bucket:[a-d]")
	errs := PushAll(t.Context(), apart, jobs, func(int) *store.Store { return b.Store }, nil)
	for i, stored := range []bool{true, false, true, false, false} {
		if (errs[i] == nil) != stored || !stored && !store.Refused(errs[i]) {
			t.Errorf("%s: %v, stored: %v", jobs[i].ID, errs[i], stored)
		}
	}
	b.do(t, "ACL", "SETUSER", "default", "allkeys")
	b.With(t).Expect(redistest.State{Pool: []string{"a", "b"}, Buckets: map[string]string{"a": "t b", "b": "t b"}})
}
