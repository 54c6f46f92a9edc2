package client_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// cutRow is a row of the table in docs/testing.md. It describes the job after a cut at one command of an operation.
type cutRow struct {
	operation, cut string
	then           string // where the job is after the cut
	again          string // what the caller gets if it makes the call once more
	end, without   string // what happens to the job if the caller repeats the call, and if it does not
}

func (r cutRow) String() string {
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", r.operation, r.cut, r.then, r.again, r.end, r.without)
}

const (
	early = "at any command before"
	late  = "after its script"
)

// documentedCuts returns the rows of the table in docs/testing.md whose third column has this head.
func documentedCuts(t *testing.T, head string) (rows []cutRow) {
	t.Helper()
	text, err := os.ReadFile("../docs/testing.md")
	check(t, err)
	_, table, _ := strings.Cut(string(text), "| operation | cut | "+head+" |")
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.TrimSpace(line)+"|", "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) == 2: // the end of the table
			return rows
		case len(cells) > 6 && !strings.HasPrefix(cells[1], "-"):
			rows = append(rows, cutRow{cells[1], cells[2], cells[3], cells[4], cells[5], cells[6]})
		}
	}
	return rows
}

// cutJob is the job of the cut test, and its history.
type cutJob struct {
	*fixture
	delivered int
	delivery  *client.Delivery // the delivery that its consumer holds
	toAck     bool             // by the consumer, at the end
}

const cutID = "job"

// cutOperation is a call whose connection is cut. It is made by a Client of its own, and answer is what its caller
// gets.
type cutOperation struct {
	name    string
	prepare func(*cutJob)
	call    func(context.Context, *cutJob, *client.Client) (answer string, err error)
	gone    string // the job's state after the operation has ended it
}

var cutOperations = []cutOperation{
	{"push", nothing, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.Push(ctx, client.Message{ID: cutID, Topic: "t", Body: "b"}, time.Millisecond))
	}), "never was"},
	{"push", nothing, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.PushBatch(ctx, []client.Delayed{{Message: client.Message{ID: cutID, Topic: "t", Body: "b"}, Delay: time.Millisecond}}))
	}), "never was"},
	{"push that follows", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.follow(ctx, c) }), ""},
	{"push to a group", nothing, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.Push(ctx, client.Message{Topic: "t", Body: "1"}, 0, client.Group("k", longGroup)))
	}), "never was"},
	{"push to a group", nothing, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.PushBatch(ctx, []client.Delayed{{Message: client.Message{Topic: "t", Body: "1"}}}, client.Group("k", longGroup)))
	}), "never was"},
	{"push to a group, with Once", nothing, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.Push(ctx, client.Message{ID: "push", Topic: "t", Body: "1"}, 0, client.Group("k", longGroup), client.Once(time.Hour)))
	}), "never was"},
	{"pop", (*cutJob).isReady, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		_, err := c.Pop(ctx, "t")
		if err == nil {
			j.delivered++
		}
		return "the job", err
	}, "popped"},
	{"pop", (*cutJob).isReady, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		list, err := c.PopBatch(ctx, "t", 10)
		j.delivered += len(list)
		return "the job", err
	}, "popped"},
	{"reserve", (*cutJob).isReady, reserveToAck, ""},
	{"ack", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.delivery.Ack(ctx) }), "acked"},
	{"ack", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return errOf(c.AckBatch(ctx, []*client.Delivery{j.delivery}))
	}), "acked"},
	{"ack of a job with a follower", (*cutJob).isFollowed, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.delivery.Ack(ctx) }), ""},
	{"retry", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return j.delivery.Retry(ctx, time.Millisecond)
	}), ""},
	{"retry of the last attempt", (*cutJob).isReservedLast, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return j.delivery.Retry(ctx, time.Millisecond)
	}), ""},
	{"release", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.delivery.Release(ctx) }), ""},
	{"extend", (*cutJob).isReserved, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		j.toAck = true
		return "done", j.delivery.Extend(ctx, 2*time.Hour)
	}, ""},
	{"extend", (*cutJob).isReserved, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		j.toAck = true
		_, err := c.ExtendBatch(ctx, []*client.Delivery{j.delivery}, 0)
		return "done", err
	}, ""},
	{"bury", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.delivery.Bury(ctx, "why") }), ""},
	{"requeue", (*cutJob).isDead, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return c.Requeue(ctx, cutID) }), ""},
	{"remove", (*cutJob).isReserved, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		removed, err := c.Remove(ctx, cutID)
		return fmt.Sprint(removed), err
	}, "removed"},
	{"reschedule", (*cutJob).isReserved, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return c.Reschedule(ctx, cutID, time.Millisecond)
	}), ""},
	{"drop a dead letter", (*cutJob).isDead, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		dropped, err := c.DropDead(ctx, "t", cutID)
		return fmt.Sprint(dropped), err
	}, "removed"},
	{"drop a dead letter", (*cutJob).isDead, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		dropped, err := c.DropAllDead(ctx, "t")
		return fmt.Sprint(dropped), err
	}, "removed"},
	{"pause", (*cutJob).isReady, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return c.Pause(ctx, "t", client.PauseOptions{})
	}), ""},
	{"resume", (*cutJob).isHeld, func(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
		was, err := c.Resume(ctx, "t")
		return fmt.Sprint(was), err
	}, ""},
	{"back off", (*cutJob).isReady, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return c.BackOff(ctx, "t", time.Hour) }), ""},
	{"set limit", (*cutJob).isReady, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return c.SetLimit(ctx, "t", client.Limit{Concurrency: 1})
	}), ""},
	{"set limit", (*cutJob).isReady, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return c.SetLimit(ctx, "t", client.Limit{Rate: 1000})
	}), ""},
	{"end limit", (*cutJob).isLimited, does(func(ctx context.Context, j *cutJob, c *client.Client) error {
		return c.SetLimit(ctx, "t", client.Limit{})
	}), ""},
	{"reserve the one that may be", (*cutJob).isLimited, reserveToAck, ""},
	{"ack of the one that may be", (*cutJob).isTheOne, does(func(ctx context.Context, j *cutJob, c *client.Client) error { return j.delivery.Ack(ctx) }), "acked"},
}

// does is a call without a result.
func does(call func(context.Context, *cutJob, *client.Client) error) func(context.Context, *cutJob, *client.Client) (string, error) {
	return func(ctx context.Context, j *cutJob, c *client.Client) (string, error) { return "done", call(ctx, j, c) }
}

// reserveToAck reserves the job, which its consumer acknowledges at the end.
func reserveToAck(ctx context.Context, j *cutJob, c *client.Client) (string, error) {
	list, err := c.ReserveBatch(ctx, "t", 1, time.Hour)
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
func (j *cutJob) follow(ctx context.Context, c *client.Client) error {
	return errOf(c.Push(ctx, client.Message{ID: cutID, Topic: "t", Body: "b"}, 0, client.Follow))
}

func (j *cutJob) isFollowed() {
	j.TB.Helper()
	j.isReserved()
	check(j.TB, j.follow(j.TB.Context(), j.Client))
}

func (j *cutJob) isReservedLast() {
	j.TB.Helper()
	_, err := j.Push(j.TB.Context(), client.Message{ID: cutID, Topic: "t", Body: "b"}, 0, client.MaxAttempts(1))
	check(j.TB, err)
	j.reserve(j.Client)
}

func (j *cutJob) isDead() {
	j.TB.Helper()
	j.isReserved()
	check(j.TB, j.delivery.Bury(j.TB.Context(), "why"))
	j.delivery, j.delivered = nil, 0
}

func (j *cutJob) reserve(c *client.Client) {
	j.TB.Helper()
	list, err := c.ReserveBatch(j.TB.Context(), "t", 1, time.Hour)
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
		check(j.TB, j.Reschedule(j.TB.Context(), id, time.Millisecond))
	}
}

// bodies returns the number of bodies of the job, which are separated by commas.
func bodies(body string) int { return 1 + strings.Count(body, ",") }

func (j *cutJob) where() string {
	j.TB.Helper()
	job, err := j.Get(j.TB.Context(), j.id())
	if errors.Is(err, client.ErrNotFound) {
		return "none"
	}
	check(j.TB, err)
	return string(job.State)
}

// isHeld makes the job ready in a paused topic.
func (j *cutJob) isHeld() {
	j.TB.Helper()
	check(j.TB, j.Pause(j.TB.Context(), "t", client.PauseOptions{}))
	j.isReady()
}

// isLimited makes the job ready in a topic that is limited to one at a time.
func (j *cutJob) isLimited() {
	j.TB.Helper()
	check(j.TB, j.SetLimit(j.TB.Context(), "t", client.Limit{Concurrency: 1}))
	j.isReady()
}

// isTheOne reserves the job, which is the only one that the limit allows.
func (j *cutJob) isTheOne() { j.isLimited(); j.reserve(j.Client) }

// limited describes a topic with a limit, as in the table.
func (j *cutJob) limited() string {
	j.TB.Helper()
	l, err := j.Limit(j.TB.Context(), "t")
	check(j.TB, err)
	if l != (client.Limit{}) {
		return ", limited"
	}
	return ""
}

func (j *cutJob) held() bool {
	j.TB.Helper()
	paused, err := j.Paused(j.TB.Context())
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
	ctx := j.TB.Context()
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
		list, err := j.ReserveBatch(ctx, "t", 10, time.Hour)
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
	pool := connect(o)
	end := redistest.Background(j.TB, server.New(pool, j.serverOptions(5*time.Millisecond)).Run)
	return func() {
		j.TB.Helper()
		end()
		pool.Close()
	}
}

// cutOutcome is the result of one cut, with its row of the table.
type cutOutcome struct {
	command string // the command at which the connection was cut
	after   bool
	row     cutRow
}

// A connection is cut at each command of each operation. No job is lost, except with the reply to a pop. No job is
// delivered twice unless its lease has ended or it was released. The table in docs/testing.md lists all other effects.
// The number in it is the total number of deliveries of the job.
func TestCuts(t *testing.T) {
	f := start(t, onePool)
	cutter := redistest.StartCutter(t, f.Addr)
	var got []cutRow
	for i, op := range cutOperations {
		for _, row := range rowsOf(t, f.cutEverywhere(t, cutter, op)) {
			if !slices.Contains(got, row) { // a batch of one has the same result as a single call
				got = append(got, row)
			}
		}
		if i == 2 {
			got = append(got, f.cutMoves(t, cutter))
		}
	}
	expectCuts(t, got, documentedCuts(t, "the job then"))
}

// expectCuts checks the rows of a table in docs/testing.md.
func expectCuts(t *testing.T, got, want []cutRow) {
	t.Helper()
	for i, row := range got {
		if i >= len(want) || row != want[i] {
			t.Errorf("not in docs/testing.md, or not there: %v", row)
		}
	}
	if len(got) < len(want) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
}

// firstScript is the number of the command by which a new Client first runs a script that Redis does not know: PING,
// EXISTS and EVALSHA come before it.
const firstScript = 4

// cutEverywhere cuts one call at each of its commands, before and after; in the short set, only from its script on.
func (f *fixture) cutEverywhere(t *testing.T, cutter *redistest.Cutter, op cutOperation) []cutOutcome {
	t.Helper()
	var outcomes []cutOutcome
	first := rounds(1, firstScript)
	for n := first; ; n++ {
		for _, after := range []bool{false, true} {
			o, cut := f.cut(t, cutter, op, n, after)
			if !cut {
				if n == first || after {
					t.Fatalf("%s: no cut at command %d", op.name, n)
				}
				return outcomes
			}
			outcomes = append(outcomes, o)
		}
	}
}

// cut returns the result of a cut at the n-th command, and reports whether there was such a command.
func (f *fixture) cut(t *testing.T, cutter *redistest.Cutter, op cutOperation, n int, after bool) (cutOutcome, bool) {
	t.Helper()
	o := cutOutcome{row: cutRow{operation: op.name}}
	for _, again := range []bool{true, false} {
		var cut bool
		var failure error
		name := fmt.Sprintf("%s, command %d, answered %v, again %v", op.name, n, after, again)
		t.Run(name, func(t *testing.T) { cut, failure = f.with(t).cutOnce(cutter, op, n, after, again, &o) })
		if !cut {
			return o, false
		}
		end := o.row.end
		if !again {
			end = o.row.without
		}
		if strings.HasPrefix(end, "lost") && !errors.Is(failure, client.ErrLost) {
			t.Errorf("%s: the job is lost, and the error is %v", name, failure)
		}
	}
	return o, true
}

func (f *fixture) cutOnce(cutter *redistest.Cutter, op cutOperation, n int, after, again bool, o *cutOutcome) (cut bool, failure error) {
	f.TB.Helper()
	f.Flush()
	cutter.Arm(0, false)
	c := redistest.Must(client.OpenPool(f.reach(client.PoolOptions{Addr: cutter.Addr}), f.options()...))
	defer c.Close()
	j := &cutJob{fixture: f}
	op.prepare(j)
	if j.delivery != nil { // this Client makes its calls
		j.delivery = client.Through(j.delivery, c)
	}
	f.Do("SCRIPT", "FLUSH")

	cutter.Arm(n, after)
	_, failure = op.call(f.TB.Context(), j, c)
	commands := cutter.Commands()
	if len(commands) < n {
		answerOf(f.TB, "", failure)
		return false, failure
	}
	if failure == nil {
		f.TB.Error("the call has an answer that nobody sent")
	}
	o.command, o.after, o.row.then = commands[n-1], after, j.where()
	if j.held() {
		o.row.then += ", held"
	}
	o.row.then += j.limited()
	if again {
		answer, err := op.call(f.TB.Context(), j, c)
		o.row.again = answerOf(f.TB, answer, err)
	}
	gone := op.gone
	if gone == "popped" && j.delivered == 0 {
		gone = "lost"
	}
	end := j.drain(gone)
	if again {
		o.row.end = end
	} else {
		o.row.without = end
	}
	return true, failure
}

// answerOf returns what the caller gets: the result, or one of our errors.
func answerOf(t testing.TB, answer string, err error) string {
	t.Helper()
	for name, known := range map[string]error{
		"ErrEmpty": client.ErrEmpty, "ErrLeaseLost": client.ErrLeaseLost,
		"ErrExhausted": client.ErrExhausted, "ErrNotFound": client.ErrNotFound, "ErrExists": client.ErrExists,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		t.Error(err)
	}
	return answer
}

// rowsOf sums up the outcomes. All cuts but the last one must have the same outcome.
func rowsOf(t *testing.T, outcomes []cutOutcome) []cutRow {
	t.Helper()
	last := len(outcomes) - 1
	names := make([]string, 0, len(outcomes))
	for i, o := range outcomes {
		names = append(names, fmt.Sprint(o.command, " ", map[bool]string{true: "answered", false: "sent"}[o.after]))
		if i < last && o.row != outcomes[0].row {
			t.Errorf("%s: cut at %s: %v, but before that %v", o.row.operation, names[i], o.row, outcomes[0].row)
		}
	}
	t.Logf("%s is cut at: %s", outcomes[0].row.operation, strings.Join(names, ", "))
	first, end := outcomes[0].row, outcomes[last].row
	first.cut, end.cut = early, late
	return []cutRow{first, end}
}

// cutMoves cuts a server at each command that it sends until a job is ready.
func (f *fixture) cutMoves(t *testing.T, cutter *redistest.Cutter) cutRow {
	t.Helper()
	var rows []cutRow
	commands := 0
	for n := 0; n <= commands; n++ { // the first round is without a cut
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("move, command %d, answered %v", n, after), func(t *testing.T) {
				j := &cutJob{fixture: f.with(t)}
				j.Flush()
				_, err := j.Push(t.Context(), client.Message{ID: cutID, Topic: "t", Body: "b"}, time.Millisecond)
				check(t, err)
				j.Do("SCRIPT", "FLUSH")
				cutter.Arm(n, after)
				stop := j.move(cutter.Addr)
				until(t, "the job is ready, and there was a cut", func() bool { return j.where() == "ready" && len(cutter.Commands()) >= n })
				stop()
				if n == 0 {
					commands = max(commands, len(cutter.Commands()))
					return
				}
				rows = append(rows, cutRow{"move", "at any command", j.where(), "", j.drain("none"), ""})
			})
		}
	}
	if rows = slices.Compact(rows); len(rows) != 1 || commands < 6 { // PING, and two scripts that are not loaded
		t.Fatalf("%d commands, different outcomes: %v", commands, rows)
	}
	return rows[0]
}

// A waiting Reserve gets the job, no matter at which command it or its subscription is cut.
func TestCutsOfAWaitingReserve(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	cutter := redistest.StartCutter(t, f.Addr)
	f.behind(cutter.Addr)
	commands := 0
	for n := 0; n <= commands; n++ { // the first round is without a cut
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("command %d, answered %v", n, after), func(t *testing.T) {
				j := &cutJob{fixture: f.with(t)}
				sent, lost := j.waitThroughCut(cutter, n, after)
				if n == 0 {
					commands = max(commands, len(sent))
				} else if len(sent) >= n {
					t.Logf("cut at %s, the job was in the lost answer: %v", sent[n-1], lost)
				}
			})
		}
	}
	if commands < 6 { // PING and the script, not loaded at first; PING, SUBSCRIBE; the script again
		t.Errorf("%d commands", commands)
	}
}

// waitThroughCut returns the commands that were sent, and reports whether the lost reply had the job.
func (j *cutJob) waitThroughCut(cutter *redistest.Cutter, n int, after bool) (sent []string, lost bool) {
	j.TB.Helper()
	ctx := j.TB.Context()
	j.Flush()
	j.Do("SCRIPT", "FLUSH")
	cutter.Arm(n, after)
	c := redistest.Must(client.OpenPool(j.reach(client.PoolOptions{Addr: cutter.Addr}), j.options()...))
	defer c.Close()
	defer j.move(j.Addr)()
	delivered := make(chan *client.Delivery, 1)
	go func() {
		d, err := c.Reserve(ctx, hangBound, time.Hour, "t")
		if err != nil {
			j.TB.Error(err)
		}
		delivered <- d
	}()
	until(j.TB, "it listens", func() bool { return j.Waiters("t") > 0 || len(delivered) > 0 })
	j.isReady()
	until(j.TB, "it has the job", func() bool {
		if !lost && strings.Contains(cutter.Lost(), cutID) {
			lost = true
			j.endLease()
		}
		return len(delivered) > 0
	})
	sent = cutter.Commands()
	cutter.Arm(0, false)
	if d := <-delivered; d != nil {
		if err := d.Ack(ctx); err != nil {
			j.TB.Error(err)
		}
	}
	j.Expect(state{})
	return sent, lost
}
