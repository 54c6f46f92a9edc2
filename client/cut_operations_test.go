package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// cutJob is the job of the cut test, and its history.
type cutJob struct {
	*fixture
	delivered int
	delivery  *client.Delivery // the delivery that its consumer holds
	toAck     bool             // by the consumer, at the end
}

const cutID = "job"

var cutMessage = client.Message{ID: cutID, Topic: "t", Body: "b"}

func (j *cutJob) ctx() context.Context { return j.TB.Context() }

// cutOperation is a call whose connection is cut. It is made by a Client of its own, and answer is what its caller
// gets.
type cutOperation struct {
	name    string
	prepare func(*cutJob)
	call    func(*cutJob, *client.Client) (answer string, err error)
	gone    string // the job's state after the operation has ended it
}

var cutOperations = []cutOperation{
	{"push", nothing, does(func(j *cutJob, c *client.Client) error { return errOf(c.Push(j.ctx(), cutMessage, time.Millisecond)) }), "never was"},
	{"push", nothing, does(func(j *cutJob, c *client.Client) error {
		return errOf(c.PushBatch(j.ctx(), []client.Item{{Message: cutMessage, Delay: time.Millisecond}}))
	}), "never was"},
	{"push that follows", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return j.follow(c) }), ""},
	{"push to a group", nothing, does(func(j *cutJob, c *client.Client) error {
		return errOf(c.Push(j.ctx(), client.Message{Topic: "t", Body: "1"}, 0, groupOf("k", longGroup)))
	}), "never was"},
	{"push to a group", nothing, does(func(j *cutJob, c *client.Client) error {
		return errOf(c.PushBatch(j.ctx(), []client.Item{{Message: client.Message{Topic: "t", Body: "1"}}}, groupOf("k", longGroup)))
	}), "never was"},
	{"push to a group, with Once", nothing, does(func(j *cutJob, c *client.Client) error {
		return errOf(c.Push(j.ctx(), client.Message{ID: "push", Topic: "t", Body: "1"}, 0, groupOf("k", longGroup), client.IfExists(client.Once(time.Hour))))
	}), "never was"},
	{"pop", (*cutJob).isReady, func(j *cutJob, c *client.Client) (string, error) {
		_, err := c.Pop(j.ctx(), "t")
		if err == nil {
			j.delivered++
		}
		return "the job", err
	}, "popped"},
	{"pop", (*cutJob).isReady, func(j *cutJob, c *client.Client) (string, error) {
		list, err := c.Fetch(j.ctx(), clienttest.Popped("t", 10))
		j.delivered += len(list)
		return "the job", err
	}, "popped"},
	{"reserve", (*cutJob).isReady, reserveToAck, ""},
	{"ack", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return j.delivery.Ack(j.ctx()) }), "acked"},
	{"ack", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error {
		return errOf(c.AckBatch(j.ctx(), []*client.Delivery{j.delivery}))
	}), "acked"},
	{"ack of a job with a follower", (*cutJob).isFollowed, does(func(j *cutJob, c *client.Client) error { return j.delivery.Ack(j.ctx()) }), ""},
	{"retry", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return j.delivery.Retry(j.ctx(), time.Millisecond, nil) }), ""},
	{"retry of the last attempt", (*cutJob).isReservedLast, does(func(j *cutJob, c *client.Client) error { return j.delivery.Retry(j.ctx(), time.Millisecond, nil) }), ""},
	{"release", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return j.delivery.Release(j.ctx(), 0) }), ""},
	{"extend", (*cutJob).isReserved, func(j *cutJob, c *client.Client) (string, error) {
		j.toAck = true
		return "done", j.delivery.Extend(j.ctx(), 2*time.Hour)
	}, ""},
	{"extend", (*cutJob).isReserved, func(j *cutJob, c *client.Client) (string, error) {
		j.toAck = true
		_, err := c.ExtendBatch(j.ctx(), []*client.Delivery{j.delivery}, 0)
		return "done", err
	}, ""},
	{"bury", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return j.delivery.Bury(j.ctx(), errors.New("why")) }), ""},
	{"requeue", (*cutJob).isDead, does(func(j *cutJob, c *client.Client) error { return c.Requeue(j.ctx(), cutID) }), ""},
	{"remove", (*cutJob).isReserved, says(func(j *cutJob, c *client.Client) (string, error) {
		was, err := c.Remove(j.ctx(), cutID)
		return cmp.Or(string(was), "none"), err
	}), "removed"},
	{"reschedule", (*cutJob).isReserved, does(func(j *cutJob, c *client.Client) error { return c.Reschedule(j.ctx(), cutID, time.Millisecond) }), ""},
	{"remove a dead letter", (*cutJob).isDead, says(func(j *cutJob, c *client.Client) (string, error) {
		was, err := c.Remove(j.ctx(), cutID)
		return cmp.Or(string(was), "none"), err
	}), "removed"},
	{"drop all dead letters", (*cutJob).isDead, says(func(j *cutJob, c *client.Client) (int, error) { return c.DropAll(j.ctx(), "t") }), "removed"},
	{"pause", (*cutJob).isReady, does(func(j *cutJob, c *client.Client) error { return c.Pause(j.ctx(), "t", client.PauseOptions{}) }), ""},
	{"resume", (*cutJob).isHeld, says(func(j *cutJob, c *client.Client) (bool, error) { return c.Resume(j.ctx(), "t") }), ""},
	{"throttle", (*cutJob).isReady, does(func(j *cutJob, c *client.Client) error { return c.Throttle(j.ctx(), "t", time.Hour) }), ""},
	{"set limit", (*cutJob).isReady, does(func(j *cutJob, c *client.Client) error { return c.SetLimit(j.ctx(), "t", client.Limit{Concurrency: 1}) }), ""},
	{"set limit", (*cutJob).isReady, does(func(j *cutJob, c *client.Client) error { return c.SetLimit(j.ctx(), "t", client.Limit{Rate: 1000}) }), ""},
	{"end limit", (*cutJob).isLimited, does(func(j *cutJob, c *client.Client) error { return c.SetLimit(j.ctx(), "t", client.Limit{}) }), ""},
	{"reserve the one that may be", (*cutJob).isLimited, reserveToAck, ""},
	{"ack of the one that may be", (*cutJob).isTheOne, does(func(j *cutJob, c *client.Client) error { return j.delivery.Ack(j.ctx()) }), "acked"},
}

// does is a call without a result.
func does(call func(*cutJob, *client.Client) error) func(*cutJob, *client.Client) (string, error) {
	return func(j *cutJob, c *client.Client) (string, error) { return "done", call(j, c) }
}

// says is a call whose result the table has.
func says[T any](call func(*cutJob, *client.Client) (T, error)) func(*cutJob, *client.Client) (string, error) {
	return func(j *cutJob, c *client.Client) (string, error) {
		result, err := call(j, c)
		return fmt.Sprint(result), err
	}
}

// reserveToAck reserves the job, which its consumer acknowledges at the end.
func reserveToAck(j *cutJob, c *client.Client) (string, error) {
	list, err := c.Fetch(j.ctx(), clienttest.Ready("t", 1, time.Hour))
	if err == nil {
		j.delivered++
		j.delivery, j.toAck = list[0], true
	}
	return "the job", err
}

func nothing(*cutJob) {}

func (j *cutJob) isReady() { j.push(cutID, "t") }

// isReserved reserves the job for the first time.
func (j *cutJob) isReserved() { j.isReady(); j.reserve(j.Client) }

// follow pushes a follower.
func (j *cutJob) follow(c *client.Client) error {
	return errOf(c.Push(j.ctx(), cutMessage, 0, client.IfExists(client.Follow())))
}

func (j *cutJob) isFollowed() {
	j.TB.Helper()
	j.isReserved()
	check(j.TB, j.follow(j.Client))
}

func (j *cutJob) isReservedLast() {
	j.TB.Helper()
	_, err := j.Push(j.ctx(), cutMessage, 0, client.JobOptions{MaxAttempts: 1})
	check(j.TB, err)
	j.reserve(j.Client)
}

func (j *cutJob) isDead() {
	j.TB.Helper()
	j.isReserved()
	check(j.TB, j.delivery.Bury(j.ctx(), errors.New("why")))
	j.delivery, j.delivered = nil, 0
}

func (j *cutJob) reserve(c *client.Client) {
	j.TB.Helper()
	list, err := c.Fetch(j.ctx(), clienttest.Ready("t", 1, time.Hour))
	check(j.TB, err)
	j.delivered++
	j.delivery = list[0]
}

// id returns the ID of the job, which may have been created by a group.
func (j *cutJob) id() string {
	j.TB.Helper()
	for id := range j.State().Buckets {
		return id
	}
	return cutID
}

// fallDue makes the job due if it is a group that still waits.
func (j *cutJob) fallDue() {
	j.TB.Helper()
	if id := j.id(); id != cutID {
		check(j.TB, j.Reschedule(j.ctx(), id, time.Millisecond))
	}
}

func (j *cutJob) where() string {
	j.TB.Helper()
	job, err := j.Get(j.ctx(), j.id())
	if errors.Is(err, client.ErrNotFound) {
		return "none"
	}
	check(j.TB, err)
	return string(job.State)
}

// isHeld makes the job ready in a paused topic.
func (j *cutJob) isHeld() {
	j.TB.Helper()
	check(j.TB, j.Pause(j.ctx(), "t", client.PauseOptions{}))
	j.isReady()
}

// isLimited makes the job ready in a topic that is limited to one at a time.
func (j *cutJob) isLimited() {
	j.TB.Helper()
	check(j.TB, j.SetLimit(j.ctx(), "t", client.Limit{Concurrency: 1}))
	j.isReady()
}

// isTheOne reserves the job, which is the only one that the limit allows.
func (j *cutJob) isTheOne() { j.isLimited(); j.reserve(j.Client) }

// limited describes a topic with a limit, as in the table.
func (j *cutJob) limited() string {
	j.TB.Helper()
	if _, of := j.stats("t"); of.Limit != (client.Limit{}) {
		return ", limited"
	}
	return ""
}

func (j *cutJob) held() bool {
	j.TB.Helper()
	paused, err := j.Paused(j.ctx())
	check(j.TB, err)
	return len(paused) > 0
}

// endLease ends the job's lease if it is reserved, as if its consumer had died.
func (j *cutJob) endLease() {
	j.TB.Helper()
	if j.where() == "reserved" {
		j.Do("ZADD", "delayer:job_pool", "XX", "1700000000.000123", cutID)
		j.Do("ZADD", "delayer:slots:t", "XX", "1700000000.000123", cutID)
	}
}

// drain delivers and acknowledges the jobs in Redis, and reports what happened to the job; gone is the result if there
// is no job.
func (j *cutJob) drain(gone string) string {
	j.TB.Helper()
	ctx := j.ctx()
	if j.toAck && j.delivery.Ack(ctx) == nil {
		gone = "acked"
	}
	if j.held() {
		j.Expect(state{Paused: queues{"t": {cutID}}, Buckets: buckets{cutID: "t body"}})
		return fmt.Sprintf("held, %d", j.delivered)
	}
	j.endLease()
	j.fallDue()
	stop := j.move(j.Addr)
	defer stop()
	until(j.TB, "nothing is left", func() bool {
		list, err := j.Fetch(ctx, clienttest.Ready("t", 10, time.Hour))
		if err != nil && !errors.Is(err, client.ErrEmpty) {
			j.TB.Fatal(err)
		}
		for _, d := range list {
			j.delivered += bodies(d.Body)
			check(j.TB, d.Ack(ctx))
			gone = "acked"
		}
		where := j.where()
		if where == "dead" {
			gone = where
		}
		return where == "none" || where == "dead"
	})
	letters := j.State().Letters
	left := state{}
	if gone == "dead" {
		left = state{Letters: letters, Dead: queues{"t": {cutID}}}
	}
	left.Once, left.Limits = j.State().Once, j.State().Limits
	j.Expect(left)
	if gone == "never was" {
		return gone
	}
	return fmt.Sprintf("%s, %d%s", gone, j.delivered, j.limited())
}

// move runs a server that reaches Redis at addr, until stop is called.
func (j *cutJob) move(addr string) (stop func()) {
	o := client.PoolOptions{Addr: addr}
	if addr != j.Addr {
		o = j.reach(o)
	}
	r := redistest.Must(client.Connect(o))
	end := redistest.Background(j.TB, j.server(r, 5*time.Millisecond).Run)
	return func() {
		j.TB.Helper()
		end()
		r.Close()
	}
}
