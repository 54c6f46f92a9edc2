package redisconn

import (
	"testing"
	"testing/synctest"
	"time"
)

// Each key is due once within the time, by itself.
func TestReminder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r Reminder
		for _, step := range []struct {
			wait time.Duration
			key  string
			want bool
		}{
			{0, "a", true}, {0, "a", false}, {0, "b", true}, {time.Hour - 1, "a", false}, {1, "a", true}, {0, "a", false}, {0, "b", true},
		} {
			time.Sleep(step.wait)
			if got := r.IsDue(step.key, time.Hour); got != step.want {
				t.Errorf("%+v: %v", step, got)
			}
		}
		if r.Forget("a"); !r.IsDue("a", time.Hour) {
			t.Error("a forgotten key is not due")
		}
		if time.Sleep(time.Hour); r.IsDue("c", time.Hour) && len(r.said) != 1 {
			t.Errorf("%d keys are kept", len(r.said))
		}
	})
}
