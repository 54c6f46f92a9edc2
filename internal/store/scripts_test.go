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
	sure := func(got any, err error) any {
		check(t, err)
		return got
	}
	_, _, err := b.PutSchedule(ctx, aSchedule("s"), b.time(3600*second))
	check(t, err)
	check(t, b.Reschedule(ctx, ScheduleID("s"), 0)) // as an old server moves it
	for _, c := range []struct {
		script string
		run    func() any
		want   string
	}{
		{"forecast", func() any {
			_, counts, err := b.Forecast(ctx, time.Time{}, []int64{0, 60_000, 7_200_000})
			check(t, err)
			return counts
		}, "[{0 0 0} {3 3 1}]"},
		{"sample", func() any { return sure(b.Sample(ctx, 10, 0, 10, 0)) }, "{3 3 1 map[t:2]}"},
		{"fsck_keys", func() any { return made(t, b.FsckKeys([]FoundKey{{"bucket", "l"}}, false)).Faults }, "[]"},
		{"fsck_lost", func() any { return made(t, b.FsckLost([]Lost{{ID: "w"}}, LostLook)).Jobs }, "[]"},
		{"fsck_pool", func() any { return made(t, b.FsckPool("0", 10, false, true)).Leases }, fmt.Sprintf("[{v 1 %d}]", held.Token)},
		{"fsck_queue", func() any { return made(t, b.FsckQueue("u", false, QueuePlace{}, 10)).IDs }, "[r q]"},
		{"fsck_set", func() any { return made(t, b.FsckSet(DeadSet, "d", "0", 10, false, true)).IDs }, "[d]"},
		{"drop_dead", func() any { return sure(b.DropDead(ctx, "d", []string{"d", "none"}, time.Time{})) }, "1"},
		{"layout", func() any { return made(t, b.KeepLayout(2)) }, "2"},
		{"restore", func() any {
			return made(t, b.Restore([]Record{{Kind: RecordReady, ID: "restored", TTL: time.Hour, Fields: map[string]string{"topic": "x"}}, {Kind: RecordReady, ID: "w"}}, false))
		}, "[true false]"},
		{"list_schedules", func() any {
			b.ListSchedules(ctx, "one", []string{"a", "b"})
			others, err := b.ListSchedules(ctx, "two", []string{"b", "c"})
			check(t, err)
			return others["a"] && others["b"] && !others["c"]
		}, "true"},
		{"repair_schedules", func() any {
			repaired, err := b.RepairSchedules(ctx, "", true)
			check(t, err)
			return repaired.Names
		}, "[s]"},
		{"register", func() any {
			Register(ctx, []*Store{b.Store}, "me", Program{"host", "program", 7})
			return sure(b.Programs(ctx, []string{"me"}))
		}, "map[me:{host program 7}]"},
		{"rehearse", func() any { return made(t, b.Rehearse("no job")).Lacking }, "[]"},
	} {
		if got := fmt.Sprint(c.run()); got != c.want {
			t.Errorf("%s: %v, want %s", c.script, got, c.want)
		}
	}
}

// Removing a waiting or reserved job returns before the functions for other cases are defined.
func TestPlainRemoveIsTheHead(t *testing.T) {
	head, rest, found := strings.Cut(removeScript.plain().text, "if not rest then return #told > 0 and told or nil end\n")
	if !found || strings.Count(head, "function") != 2 || !strings.Contains(rest, "local function withdraw") {
		t.Errorf("it begins with\n%s", head)
	}
}

// A plain push returns before the functions for other cases are defined. Only a push that falls due soon defines a function, which
// announces it.
func TestPlainPushIsTheHead(t *testing.T) {
	head, rest, found := strings.Cut(pushScript.plain().text, "\n    return nil\n")
	if !found || strings.Count(head, "function") != 1 || !strings.Contains(head, "function announce(") || !strings.Contains(rest, "local function wake(") {
		t.Errorf("it begins with\n%s", head)
	}
}

// The forms of a script for a cluster check whether keys have moved wherever the script can, and sharded ones never publish to all nodes.
func TestScriptInACluster(t *testing.T) {
	files, err := scripts.ReadDir("lua/gen")
	check(t, err)
	allChecks, allPublished := 0, 0
	for _, file := range files {
		s := newScript(strings.TrimSuffix(file.Name(), ".lua"))
		forms := []string{s.plain().text, s.inCluster().text, s.sharded().text}
		checks, published := strings.Count(forms[0], "local IN_CLUSTER = false"), strings.Count(forms[0], "'PUBLISH'")
		for code, want := range map[string][3]int{
			"IN_CLUSTER = false": {checks, 0, 0}, "local IN_CLUSTER = true": {0, checks, checks},
			"'PUBLISH'": {published, published, 0}, "'SPUBLISH'": {0, 0, published},
		} {
			for i, text := range forms {
				if got := strings.Count(text, code); got != want[i] {
					t.Errorf("%s, form %d, has %q %d times, want %d", s.name, i, code, got, want[i])
				}
			}
		}
		if checks == 0 && strings.Contains(forms[0], "IN_CLUSTER") {
			t.Errorf("%s uses IN_CLUSTER, and does not define it as the loader expects", s.name)
		}
		allChecks, allPublished = allChecks+checks, allPublished+published
	}
	if allChecks == 0 || allPublished == 0 {
		t.Errorf("all scripts have %d checks and publish in %d places", allChecks, allPublished)
	}
}
