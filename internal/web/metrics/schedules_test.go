package metrics

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/server"
)

// What schedules lead to is counted, and is there as 0 before.
func TestSchedulesAreCounted(t *testing.T) {
	w := newWorld(t, Options{})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "0", `delayer_schedule_moments_without_job_total{reason="late"}`: "0",
		`delayer_schedule_moments_without_job_total{reason="overlapped"}`: "0", `delayer_schedule_moments_without_job_total{reason="paused"}`: "0",
		`delayer_schedule_lateness_seconds_count`: "0",
	})
	var observer server.ScheduleObserver = w.metrics
	observer.Fired(server.Fired{Schedule: "a", Jobs: 2, Late: 5, After: 300 * time.Millisecond})
	observer.Fired(server.Fired{Schedule: "a", Overlapped: 1, Paused: 3})
	w.expect(w.scrape(), map[string]string{
		`delayer_schedule_jobs_total`: "2", `delayer_schedule_moments_without_job_total{reason="late"}`: "5",
		`delayer_schedule_moments_without_job_total{reason="overlapped"}`: "1", `delayer_schedule_moments_without_job_total{reason="paused"}`: "3",
		`delayer_schedule_lateness_seconds_count`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.5"}`: "1", `delayer_schedule_lateness_seconds_bucket{le="0.2"}`: "0",
	})
}
