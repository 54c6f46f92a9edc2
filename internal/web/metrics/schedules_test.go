package metrics

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// Runs of schedules are counted, with zeros before the first.
func TestSchedulesAreCounted(t *testing.T) {
	w := newWorld(t, Options{})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "0", `delayer_schedule_occurrences_without_job_total{reason="late"}`: "0",
		`delayer_schedule_occurrences_without_job_total{reason="overlapped"}`: "0", `delayer_schedule_occurrences_without_job_total{reason="paused"}`: "0",
		`delayer_schedule_lateness_seconds_count`: "0",
	})
	var observer server.Observer = w.metrics
	observer.Fired(server.Fired{Schedule: "a", Jobs: 2, Late: 5, After: 300 * time.Millisecond})
	observer.Fired(server.Fired{Schedule: "a", Overlapped: 1, Paused: 3})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "2", `delayer_schedule_occurrences_without_job_total{reason="late"}`: "5",
		`delayer_schedule_occurrences_without_job_total{reason="overlapped"}`: "1", `delayer_schedule_occurrences_without_job_total{reason="paused"}`: "3",
		`delayer_schedule_lateness_seconds_count`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.5"}`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.2"}`: "0",
	})
}

// Schedules are counted by state. The most overdue active schedule sets the lateness; paused schedules do
// not count.
func TestSchedulesAreTold(t *testing.T) {
	w := newWorldOf(t, 3, Options{})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedules{state="active"}`: "0", `delayer_schedules{state="paused"}`: "0", `delayer_schedules{state="ended"}`: "0", `delayer_schedule_overdue_seconds`: "0",
	})
	schedule := func(name string, fields ...any) {
		_, err := w.client.Schedule(t.Context(), client.Schedule{Name: name, Every: time.Hour, Topic: "t", Body: "b"})
		check(t, err)
		if len(fields) > 0 {
			key := fmt.Sprintf("delayer:{%d}:job_bucket:%s", store.PartitionOf(store.ScheduleID(name), 3), store.ScheduleID(name))
			w.Do("HSET", append([]any{key}, fields...)...)
		}
	}
	for n := range 10 {
		schedule(fmt.Sprint("a", n))
	}
	at := time.Now()
	schedule("late", "next", at.Add(-time.Minute).UnixMilli())
	schedule("later", "next", at.Add(-time.Hour).UnixMilli())
	schedule("paused", "next", at.Add(-24*time.Hour).UnixMilli(), "paused", 1)
	schedule("ended", "next", "")
	s := w.scrape()
	w.expect(s, map[string]string{`delayer_schedules{state="active"}`: "12", `delayer_schedules{state="paused"}`: "1", `delayer_schedules{state="ended"}`: "1"})
	overdue, err := strconv.ParseFloat(s.value("delayer_schedule_overdue_seconds"), 64)
	if least := time.Since(at) + time.Hour; err != nil || overdue < 3600 || overdue > (least+time.Second).Seconds() {
		t.Errorf("the latest is overdue by %v s, %v", overdue, err)
	}
	w.Kill()
	if got := w.scrape().value(`delayer_schedules{state="active"}`); got != "" {
		t.Errorf("without Redis there are %s schedules", got)
	}
}

// Without permission to read schedules, everything else is present.
func TestSchedulesWithoutRights(t *testing.T) {
	w := newWorld(t, Options{})
	_, err := w.client.Schedule(t.Context(), client.Schedule{Name: "a", Every: time.Hour, Topic: "t", Body: "b"})
	check(t, err)
	w.SetUser(redistest.Rights(t, "daemon", "operator") + " resetkeys ~delayer:[^s]*")
	w.metrics.inspector = inspect.New(w.UserPool(), "", fleet.Layout{})
	w.expect(w.scrape(), map[string]string{`delayer_redis_up`: "1", `delayer_schedules{state="active"}`: "", `delayer_schedule_overdue_seconds`: "", "delayer_topics_paused": "0"})
}
