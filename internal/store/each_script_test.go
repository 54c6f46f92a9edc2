package store

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// eachScriptWasRun fails the package if no test has run a script, unless only some tests were to run. make conformance relies on it.
func eachScriptWasRun(shared *redistest.Server) error {
	if flag.Lookup("test.run").Value.String()+flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	sources, err := filepath.Glob("lua/*.lua")
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".lua")
		if known := shared.Do("SCRIPT", "EXISTS", newScript(name).plain().hash).([]any); known[0] != int64(1) {
			err = errors.Join(err, fmt.Errorf("no test runs %s on the Redis that the tests share: add a line to TestScriptsOfOthers", source))
		}
	}
	return err
}

// The scripts whose own tests need a Redis to themselves, or belong to fleet, fsck and inspect, run on any Redis.
func TestScriptsOfOthers(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	ctx := t.Context()
	b.seed(t, waits("w", "t", 3600*second), waits("x", "t", 3600*second), ready("q", "u"), ready("r", "u"), ready("l", "v"), ready("d", "d"))
	held, _ := b.hold(t, "v", time.Hour)
	dead, _ := b.hold(t, "d", time.Hour)
	expectErrors(t, made(t, b.Bury([]Burial{{LeaseRef: dead, Reason: "why"}})), nil)
	now := int64(b.base)
	_, _, err := b.PutSchedule(ctx, aSchedule("s"), b.time(3600*second))
	check(t, err)
	check(t, b.Reschedule(ctx, ScheduleID("s"), 0)) // as an old server moves it
	other := New(b.Pool(), b.Prefix+"other:")
	var aside Transit
	for _, c := range []struct {
		script string
		run    func() (got any, err error)
		want   string
	}{
		{"count_due", func() (any, error) {
			_, counts, err := b.CountDue(ctx, []Seconds{{now, now + 60}, {now + 60, now + 7200}})
			return counts, err
		}, "[0 3]"},
		{"forecast", func() (any, error) {
			_, counts, err := b.Forecast(ctx, time.Time{}, []int64{0, 60_000, 7_200_000})
			return counts, err
		}, "[{0 0 0} {3 3 1}]"},
		{"sample", func() (any, error) { got, err := b.Sample(ctx, 10, 0, 10, 0); return got, err }, "{3 3 1 map[t:2]}"},
		{"stray", func() (any, error) { return b.CountStray().Do(ctx) }, "{4 false}"},
		{"fsck_keys", func() (any, error) {
			got, err := b.FsckKeys([]FoundKey{{"bucket", "l"}}, false).Do(ctx)
			return got.Faults, err
		}, "[]"},
		{"fsck_lost", func() (any, error) { got, err := b.FsckLost([]Lost{{ID: "w"}}, LostLook).Do(ctx); return got.Jobs, err }, "[]"},
		{"fsck_pool", func() (any, error) { got, err := b.FsckPool("0", 10, false, true).Do(ctx); return got.Leases, err }, fmt.Sprintf("[{v 1 %d}]", held.Token)},
		{"fsck_queue", func() (any, error) {
			got, err := b.FsckQueue("u", false, QueuePlace{}, 10, false).Do(ctx)
			return got.IDs, err
		}, "[r q]"},
		{"fsck_set", func() (any, error) {
			got, err := b.FsckSet(DeadSet, "d", "0", 10, false, true).Do(ctx)
			return got.IDs, err
		}, "[d]"},
		{"fsck_twice", func() (any, error) {
			got, err := b.FsckTwice("u", []string{"q"}, false).Do(ctx)
			return got.Faults, err
		}, "[]"},
		{"drop_dead", func() (any, error) { return b.DropDead(ctx, "d", []string{"d", "none"}, time.Time{}) }, "1"},
		{"layout", func() (any, error) { return b.Layout(RegisterLayout, KeptLayout{Partitions: 2}).Do(ctx) }, "{2 0 1 2}"},
		{"list_schedules", func() (any, error) {
			b.ListSchedules(ctx, "one", []string{"a", "b"})
			others, err := b.ListSchedules(ctx, "two", []string{"b", "c"})
			return others["a"] && others["b"] && !others["c"], err
		}, "true"},
		{"repair_schedules", func() (any, error) { got, err := b.RepairSchedules(ctx, "", true); return got.Names, err }, "[s]"},
		{"register", func() (any, error) {
			Register(ctx, []*Store{b.Store}, "me", Program{"host", "program", 7})
			return b.Programs(ctx, []string{"me"})
		}, "map[me:{host program 7}]"},
		{"rehearse", func() (any, error) { got, err := b.Rehearse("no job").Do(ctx); return got.Lacking, err }, "[]"},
		{"members", func() (any, error) {
			ids, _, err := b.Members(ctx, b.Keys().JobPool(), "0", 1)
			return len(ids) > 0, err
		}, "true"},
		{"adopt", func() (any, error) {
			aside = made(t, b.PutInTransit([]string{"w"}, false))
			got, err := other.Adopt(b.Store, aside.Serial, aside.Jobs).Do(ctx)
			return got.Stored, err
		}, "1"},
		{"end_transit", func() (any, error) {
			made(t, b.EndTransit(aside.Serial, 0))
			got, err := b.PutInTransit(nil, false).Do(ctx)
			return got.Jobs, err
		}, "[]"},
		{"put_ready_in_transit", func() (any, error) {
			got, err := b.PutReadyInTransit(b.Keys().ReadyQueue("u"), []string{"q"}, []string{"r"}).Do(ctx)
			return got.Jobs[0].ID, err
		}, "q"},
	} {
		if got, err := c.run(); err != nil || fmt.Sprint(got) != c.want {
			t.Errorf("%s: %v, %v, want %s", c.script, got, err, c.want)
		}
	}
}
