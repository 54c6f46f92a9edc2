package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// scheduleCut is a call on schedule a whose connection is cut.
type scheduleCut struct {
	name    string
	prepare func(f *fixture)
	call    func(ctx context.Context, c *client.Client) (string, error)
}

var scheduleCuts = []scheduleCut{
	{"set a schedule", func(*fixture) {}, func(ctx context.Context, c *client.Client) (string, error) {
		return "done", errOf(c.Schedules().Set(ctx, hourly("a")))
	}},
	{"pause a schedule", storedSchedule, func(ctx context.Context, c *client.Client) (string, error) {
		return "done", c.Schedules().Pause(ctx, "a")
	}},
	{"run a schedule", storedSchedule, runNowCut},
	{"run one that follows", begunSchedule, runNowCut},
	{"remove a schedule", storedSchedule, func(ctx context.Context, c *client.Client) (string, error) {
		was, err := c.Schedules().Remove(ctx, "a")
		return fmt.Sprint(was), err
	}},
}

func runNowCut(ctx context.Context, c *client.Client) (string, error) {
	return "done", errOf(c.Schedules().Run(ctx, "a"))
}

func storedSchedule(f *fixture) {
	f.TB.Helper()
	check(f.TB, errOf(f.Schedules().Set(f.TB.Context(), hourly("a"))))
}

// begunSchedule stores a schedule whose last job is reserved.
func begunSchedule(f *fixture) {
	f.TB.Helper()
	follows := hourly("a")
	follows.Overlap = "follow"
	check(f.TB, errOf(f.Schedules().Set(f.TB.Context(), follows)))
	check(f.TB, errOf(f.Schedules().Run(f.TB.Context(), "a")))
	f.reserve("t")
}

// schedulesAndJobs describes what is stored of schedule a, as in the table in testdata/schedule_cuts.md.
func (f *fixture) schedulesAndJobs() string {
	f.TB.Helper()
	all, err := f.Schedules().List(f.TB.Context())
	check(f.TB, err)
	state := f.State()
	jobs := len(state.Ready["t"]) + len(state.Reserved)
	for _, id := range state.Reserved {
		if job, err := f.Get(f.TB.Context(), id); err != nil || job.Followed {
			jobs++
		}
	}
	switch {
	case len(all) == 0 && len(state.Pool)+len(state.Buckets)+len(state.Schedules) == 0:
		return "no schedule"
	case len(all) != 1 || len(state.Pool) != 1 || len(state.Schedules) != 1 || jobs != int(all[0].Jobs):
		return fmt.Sprintf("%+v", state)
	case !all[0].Paused.IsZero():
		return fmt.Sprintf("paused, %d jobs", all[0].Jobs)
	}
	return fmt.Sprintf("one, %d jobs", all[0].Jobs)
}

// A connection is cut at each command of each call on schedules. The table in testdata/schedule_cuts.md lists the effects.
func TestScheduleCuts(t *testing.T) {
	t.Parallel()
	f := start(t, onePool)
	cutter := redistest.StartCutter(t, f.Addr)
	var got []cutRow
	for _, op := range scheduleCuts {
		var outcomes []cutOutcome
		for n, cut := 1, true; cut; n++ {
			for _, after := range []bool{false, true} {
				f.Flush()
				op.prepare(f)
				f.Do("SCRIPT", "FLUSH")
				cutter.Arm(n, after)
				c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: cutter.Addr}))
				_, err := op.call(t.Context(), c)
				commands := cutter.Commands()
				if cut = len(commands) >= n; cut {
					if err == nil {
						t.Errorf("%s: the call has an answer that nobody sent", op.name)
					}
					o := cutOutcome{commands[n-1], after, cutRow{operation: op.name, then: f.schedulesAndJobs()}}
					answer, err := op.call(t.Context(), c)
					o.row.again, o.row.end = answerOf(t, answer, err), f.schedulesAndJobs()
					outcomes = append(outcomes, o)
				}
				c.Close()
			}
		}
		got = append(got, rowsOf(t, outcomes)...)
	}
	expectCuts(t, got, "schedule_cuts.md")
}
