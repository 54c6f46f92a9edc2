package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// A partition that can't be read is named. The schedules of the others are complete.
func TestSchedulesOfABrokenPartition(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	names := map[bool][]string{} // by whether they are in partition 2
	for i := range 50 {
		name := fmt.Sprintf("s%02d", i)
		_, err := f.client.Schedule(f.ctx, client.Schedule{Name: name, Cron: "@daily", Topic: "t", Body: "b"})
		f.check(err)
		broken := f.Do("EXISTS", "delayer:{2}:job_bucket:{"+name+"}@schedule") == int64(1)
		names[broken] = append(names[broken], name)
	}
	expect := func(want []string, broken string) {
		t.Helper()
		all, err := f.Schedules(f.ctx)
		f.check(err)
		var got []string
		for _, s := range all.List {
			got = append(got, s.Name)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || time.Duration(f.Clock()*1e9)-time.Duration(all.Time.UnixNano()) > time.Minute {
			t.Errorf("at %v there are %v, want %v", all.Time, got, want)
		}
		if told := fmt.Sprint(all.Broken); (all.Broken != nil) != (broken != "") || !strings.Contains(told, broken) {
			t.Errorf("broken is %s, want %s", told, broken)
		}
	}
	f.Do("RENAME", "delayer:{2}:schedules", "delayer:{2}:aside")
	f.text("{2}:schedules")
	expect(names[false], "partition 2: WRONGTYPE")
	f.Do("RENAME", "delayer:{2}:aside", "delayer:{2}:schedules")
	for name := range strings.SplitSeq("s00 s25 s49", " ") {
		if all, err := f.Schedules(f.ctx); err != nil || !strings.Contains(fmt.Sprint(all.List), name) {
			t.Errorf("%s is not among %v, %v", name, all.List, err)
		}
	}
	for i := range 5 {
		f.text(fmt.Sprintf("{%d}:schedules", i))
	}
	if _, err := f.Schedules(f.ctx); err == nil || !strings.HasPrefix(err.Error(), "read schedules: partitions 0, 1, 2, 3, 4: WRONGTYPE") {
		t.Errorf("where all are broken: %v", err)
	}
}
