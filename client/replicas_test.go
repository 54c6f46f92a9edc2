package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// replicated starts a Redis with a replica. A push has loaded the scripts, and no WAIT has run.
func replicated(t *testing.T) (f *fixture, replica *redistest.Server) {
	t.Helper()
	f = start(t, alone, undivided)
	replica = redistest.StartReplica(t, f.Server)
	check(t, errOf(f.Push(t.Context(), message("before"), time.Hour)))
	check(t, errOf(f.PushBatch(t.Context(), jobs(0, 1, "t", time.Hour))))
	if n := f.Calls("wait"); n != 0 {
		t.Errorf("%d WAITs without the option", n)
	}
	return f, replica
}

// expectReplicas expects the error of a job that is stored on too few replicas; cause is the reason if their number is
// unknown.
func expectReplicas(t *testing.T, err error, want, have int, cause string) {
	t.Helper()
	var got *client.ReplicasError
	switch {
	case !errors.As(err, &got) || got.Want != want || got.Have != have:
		t.Errorf("error %v, want one of %d of %d replicas", err, have, want)
	case (got.Err == nil) != (cause == "") || got.Err != nil && !strings.Contains(got.Err.Error(), cause):
		t.Errorf("because of %v, want %q", got.Err, cause)
	}
}

// A job that is stored is not stored again under another ID because Redis was too busy to say which replicas have it.
func TestStoredJobIsNotPushedElsewhere(t *testing.T) {
	busy := redis.Error("BUSY Redis is busy running a script")
	if !client.MayTryElsewhere(t.Context(), busy) {
		t.Error("what Redis has refused is not tried elsewhere")
	}
	if client.MayTryElsewhere(t.Context(), &client.ReplicasError{ID: "a", Want: 1, Have: -1, Err: busy}) {
		t.Error("a stored job is pushed again")
	}
}

// A push that returns nil is on as many replicas as it asks for. An error reports how many replicas have it; the job is
// stored nevertheless.
func TestReplicas(t *testing.T) {
	t.Parallel()
	f, replica := replicated(t)
	ctx := t.Context()
	check(t, errOf(f.Push(ctx, message("a"), 0, client.Replicas(1, 10*time.Second))))
	if pushed, err := f.PushAt(ctx, message("b"), time.Now().Add(-time.Second), client.Replicas(2, time.Second)); pushed.ID != "b" {
		t.Errorf("the ID is %q", pushed.ID)
	} else {
		expectReplicas(t, err, 2, 1, "")
		expectText(t, "PushAt", err, `delayer: push "b": the job is stored, but 1 of 2 replicas have it`)
	}
	if there := replica.Queue("t"); strings.Join(there, " ") != "a b" {
		t.Errorf("the replica has %q", there)
	}
	replica.Hang()
	f.Do("SCRIPT", "FLUSH")
	m := message("")
	pushed, err := f.Push(ctx, m, 0, client.Replicas(1, time.Millisecond))
	expectReplicas(t, err, 1, 0, "")
	if job, err := f.Get(ctx, pushed.ID); err != nil || job.State != client.StateReady {
		t.Errorf("%q is %+v, %v", pushed.ID, job, err)
	}
	_, err = f.Push(ctx, message("a"), 0, client.Replicas(1, 10*time.Second), client.IfExists(client.Refuse()))
	expectErr(t, "Push", err, client.ErrExists) // at once, because nothing was written
}

// A batch waits once, and each of its jobs is on as many replicas as it asks for.
func TestReplicasOfABatch(t *testing.T) {
	t.Parallel()
	f, _ := replicated(t)
	list := jobs(1, 300, "t", time.Hour)
	list[0].Options = []client.PushOption{client.Replicas(2, time.Second)}
	list[299].Options = []client.PushOption{client.Replicas(1, time.Millisecond)}
	results, err := f.PushBatch(t.Context(), list)
	expectReplicas(t, err, 2, 1, "")
	expectText(t, "PushBatch", err, "1 of 300 jobs are not stored, or by too few replicas: ")
	for i, r := range results {
		if (r.Err == nil) != (i > 0) {
			t.Errorf("job %d: %v", i, r.Err)
		}
	}
	if n := f.Calls("wait"); n < 1 || n > 9 {
		t.Errorf("%d WAITs", n) // each of 250 ms
	}
	f.Do("SET", "delayer:job_bucket:0001", "x")
	replica := client.Replicas(1, time.Second)
	before := f.Calls("wait")
	if _, err = f.PushBatch(t.Context(), jobs(1, 2, "t", time.Hour), replica); err == nil || f.Calls("wait") != before {
		t.Errorf("error %v, %d WAITs for a batch that Redis has refused", err, f.Calls("wait")-before)
	}
}

// A push that waits for replicas delays no other call, no matter how long it waits and how many such pushes there are.
func TestReplicasDelayNobodyElse(t *testing.T) {
	t.Parallel()
	f, replica := replicated(t)
	replica.Hang()
	var pushes []<-chan error
	for range 100 {
		pushes = append(pushes, later(func() error {
			return errOf(f.Push(t.Context(), message(""), time.Hour, client.Replicas(1, 10*time.Second)))
		}))
	}
	redistest.Until(t, "pushes wait", func() bool { return f.InfoNumber("clients", "blocked_clients") == client.RoundTrips })
	check(t, errOf(f.Push(t.Context(), message("quick"), 0)))
	check(t, errOf(f.Pop(t.Context(), "t")))
	check(t, errOf(f.PushBatch(t.Context(), jobs(0, 500, "t", time.Hour))))
	redistest.Until(t, "pushes still wait", func() bool { return f.InfoNumber("clients", "blocked_clients") == client.RoundTrips })
	replica.Continue()
	for _, push := range pushes {
		check(t, redistest.Receive(t, push))
	}
}

// Pushes that wait for different numbers of replicas do not share batches.
func TestDifferentReplicasShareNoBatch(t *testing.T) {
	t.Parallel()
	f, _ := replicated(t)
	var pushes []<-chan error
	for i := range 8 {
		pushes = append(pushes, later(func() error {
			return errOf(f.Push(t.Context(), message(""), time.Hour, client.Replicas(1+i%2, time.Second)))
		}))
	}
	for i, push := range pushes {
		if err := redistest.Receive(t, push); i%2 == 0 {
			check(t, err)
		} else {
			expectReplicas(t, err, 2, 1, "")
		}
	}
}

// The timeout may be longer than the connection's. The end of ctx ends a batch's wait.
func TestReplicasTimeouts(t *testing.T) {
	t.Parallel()
	f, replica := replicated(t)
	replica.Hang()
	c := f.openPool(client.PoolOptions{ReadTimeout: time.Second})
	expectReplicas(t, errOf(c.Push(t.Context(), message("a"), 0, client.Replicas(1, 2*time.Second))), 1, 0, "")
	ctx, cancel := context.WithCancel(t.Context())
	batch := later(func() error { return errOf(f.PushBatch(ctx, jobs(1, 2, "t", 0), client.Replicas(1, 10*time.Second))) })
	redistest.Until(t, "it waits", func() bool { return f.InfoNumber("clients", "blocked_clients") == 1 })
	cancel()
	expectReplicas(t, redistest.Receive(t, batch), 1, -1, context.Canceled.Error())
}

// If Redis does not report the number of replicas, the job is stored and the push's error reports this.
func TestReplicasUnknown(t *testing.T) {
	t.Parallel()
	f, replica := replicated(t)
	replica.Hang()
	push := later(func() error {
		return errOf(f.Push(t.Context(), message("a"), time.Hour, client.Replicas(1, 10*time.Second)))
	})
	redistest.Until(t, "it waits", func() bool { return f.InfoNumber("clients", "blocked_clients") == 1 })
	f.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	expectReplicas(t, redistest.Receive(t, push), 1, -1, "EOF")
	user := f.as("u", strings.ReplaceAll(redistest.Rights(t, "producer"), "+wait", ""))
	expectReplicas(t, errOf(user.Push(t.Context(), message("b"), time.Hour, client.Replicas(1, time.Second))), 1, -1, "NOPERM")
	for _, id := range []string{"a", "b"} {
		check(t, errOf(f.Get(t.Context(), id)))
	}
}
