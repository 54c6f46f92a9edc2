package store

import (
	"fmt"
	"testing"
)

// A job whose body is shown costs as much as four entries, so a page with bodies takes no longer to read.
func TestBrowseOfManyJobs(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		var jobs [][]command
		for i := range 120 {
			jobs = append(jobs, ready(fmt.Sprintf("%03d", i), "t"))
		}
		b.seed(t, jobs...)
		for _, c := range []struct{ jobs, entries, preview, told int }{
			{200, 100, 0, 100}, {200, 100, 1, 25}, {200, 101, 256, 26}, {7, 100, 256, 7}, {200, 1, 256, 1}, {200, 1000, 256, 120},
		} {
			look, err := b.Browse(t.Context(), Browse{Topic: "t", State: "ready", Jobs: c.jobs, Entries: c.entries, Preview: c.preview})
			check(t, err)
			if len(look.Jobs) != c.told || look.Read != c.told {
				t.Errorf("%+v: %d jobs, %d entries", c, len(look.Jobs), look.Read)
			}
		}
		b.seed(t, ghosts("t", 100), ready("a", "t"))
		look, err := b.Browse(t.Context(), Browse{Topic: "t", State: "ready", Jobs: 10, Entries: 50, Preview: 256})
		if err != nil || look.Read != 50 || len(look.Jobs) != 0 || look.Last.At != "49" {
			t.Errorf("among ghosts: %+v, %v", look, err)
		}
	})
}
