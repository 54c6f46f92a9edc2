package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A topic that is paused in one partition counts as paused, and pausing it again pauses the others.
func TestPauseOfPartitions(t *testing.T) {
	b, server := onRedis(t)
	pool := server.Pool()
	defer pool.Close()
	ctx := t.Context()
	p := open(pool, 5)
	_, err := p.Stores[3].Pause("t", 0, "why").Do(ctx)
	check(t, err)
	all, err := p.Paused(ctx)
	if check(t, err); len(all) != 1 || all[0].Note != "why" {
		t.Fatalf("%+v", all)
	}
	b.do(t, "SET", "delayer:{2}:ready_queue:t", "text")
	if err := p.Pause(ctx, "t", 0, "why"); err == nil || !strings.Contains(err.Error(), "paused in 4 of 5 partitions; to do it again does the rest: partition 2: WRONGTYPE") {
		t.Errorf("error %v", err)
	}
	b.do(t, "DEL", "delayer:{2}:ready_queue:t")
	check(t, p.Pause(ctx, "t", time.Hour, "why"))
	for i, s := range p.Stores {
		all, err := s.Paused(ctx)
		if check(t, err); len(all) != 1 || all[0].Note != "why" || all[0].Until.IsZero() {
			t.Errorf("partition %d: %+v", i, all)
		}
	}
	was, err := p.Resume(ctx, "t")
	if check(t, err); !was {
		t.Error("it was not paused")
	}
	all, err = p.Paused(ctx)
	if check(t, err); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// Schedules of all partitions are read page by page, even if one partition fails.
func TestSchedulesOfPartitions(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		p := open(b.Pool(), 3)
		var want, unbroken []string
		for i := range 4 * store.SchedulesPage {
			name := fmt.Sprintf("s%04d", i)
			_, _, err := p.Of(store.ScheduleID(name)).PutSchedule(t.Context(), aSchedule(name), b.inAnHour())
			check(t, err)
			if want = append(want, name); p.Of(store.ScheduleID(name)) != p.Stores[1] {
				unbroken = append(unbroken, name)
			}
		}
		names := func() (names []string, err error) {
			all, err := p.Schedules(t.Context())
			for _, s := range all {
				names = append(names, s.Name)
			}
			return names, err
		}
		if got, err := names(); err != nil || !slices.Equal(got, want) {
			t.Errorf("there are %d, %v, want %d", len(got), err, len(want))
		}
		if one, err := p.Stores[1].Schedules(t.Context()); err != nil || len(one.List) != len(want)-len(unbroken) || one.Last != "" {
			t.Errorf("partition 1 has %d, %v, want %d", len(one.List), err, len(want)-len(unbroken))
		}
		b.do(t, "DEL", "delayer:{1}:schedules")
		b.do(t, "SET", "delayer:{1}:schedules", "text")
		if got, err := names(); err == nil || !strings.Contains(err.Error(), "partition 1: ") || !slices.Equal(got, unbroken) {
			t.Errorf("with a broken partition there are %d, %v, want %d", len(got), err, len(unbroken))
		}
	})
}
