package client_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// cutRow is a row of the table in testdata/cuts.md. It describes the job after a cut at one command of an operation.
type cutRow struct {
	operation, cut string
	then           string // where the job is after the cut
	again          string // what the caller gets if it makes the call once more
	end, without   string // what happens to the job if the caller repeats the call, and if it does not
}

func (r cutRow) String() string {
	text := fmt.Sprintf("| %s | %s | %s | %s | %s | %s |", r.operation, r.cut, r.then, r.again, r.end, r.without)
	return strings.TrimSuffix(text, "  |") // without an empty last cell
}

const (
	early = "at any command before"
	late  = "after its script"
)

// update makes TestCuts and TestScheduleCuts write their tables.
var update = flag.Bool("update", false, "write testdata/cuts.md and testdata/schedule_cuts.md anew")

// endOfHead is the end of the line between a table's head and its rows.
const endOfHead = "---|\n"

// tableOfCuts is a golden file: the text and the heads, and the rows below.
func tableOfCuts(t *testing.T, file string) (head string, rows []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	check(t, err)
	head, table, _ := strings.Cut(string(text), endOfHead)
	return head, strings.Split(strings.TrimSuffix(table, "\n"), "\n")
}

// bodies returns the number of bodies of the job, which are separated by commas.
func bodies(body string) int { return 1 + strings.Count(body, ",") }

// cutOutcome is the result of one cut, with its row of the table.
type cutOutcome struct {
	command string // the command at which the connection was cut
	after   bool
	row     cutRow
}

// A connection is cut at each command of each operation. No job is lost, except with the reply to a pop. No job is
// delivered twice unless its lease has ended or it was released. The table in testdata/cuts.md lists all other effects.
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
	expectCuts(t, got, "cuts.md")
}

// expectCuts compares the rows with a golden file.
func expectCuts(t *testing.T, got []cutRow, file string) {
	t.Helper()
	var rows []string
	for _, row := range got {
		rows = append(rows, row.String())
	}
	head, want := tableOfCuts(t, file)
	if *update {
		text := head + endOfHead + strings.Join(rows, "\n") + "\n"
		check(t, os.WriteFile(filepath.Join("testdata", file), []byte(text), 0o644))
		return
	}
	for i, row := range rows {
		if i >= len(want) || row != want[i] {
			t.Errorf("not in testdata/%s, or not there: %s", file, row)
		}
	}
	if len(rows) < len(want) {
		t.Errorf("%d rows, want %d", len(rows), len(want))
	}
}

// firstScript is the number of the command by which a new Client first runs a script that Redis does not know: PING,
// EXISTS and EVALSHA come before it.
const firstScript = 4

// cutEverywhere cuts one call at each of its commands, before and after; in the short set, only from its script on.
func (f *fixture) cutEverywhere(t *testing.T, cutter *redistest.Cutter, op cutOperation) []cutOutcome {
	t.Helper()
	var outcomes []cutOutcome
	first := redistest.Rounds(firstScript, 1)
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
	c := redistest.Must(client.OpenPool(f.reach(client.PoolOptions{Addr: cutter.Addr}), client.WithPrefix(f.Prefix)))
	defer c.Close()
	j := &cutJob{fixture: f}
	op.prepare(j)
	if j.delivery != nil { // this Client makes its calls
		j.delivery = client.Through(j.delivery, c)
	}
	f.Do("SCRIPT", "FLUSH")

	cutter.Arm(n, after)
	_, failure = op.call(j, c)
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
		answer, err := op.call(j, c)
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
