package store

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// A query moves a few due jobs itself, as Move does: in due order, by topic.
func TestDueMovesAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		due := [][]command{waits("a", "t", -5*second), waits("b", "u", -4*second), waits("c", "t", -3*second), waits("later", "t", 60*second)}
		orphan := []command{{"ZADD", "delayer:job_pool", -4 * second, "no bucket"}}
		for _, c := range []struct {
			name   string
			seed   [][]command
			atOnce int
			moved  bool
		}{
			{"as many as may be", due, 3, true},
			{"one more", due, 2, false},
			{"none may be", due, 0, false},
			{"IDs too long for one answer", [][]command{
				waits("a"+strings.Repeat("x", 300<<10), "t", -3*second), waits("b"+strings.Repeat("x", 300<<10), "t", -2*second), waits("c", "t", -second),
			}, 9, false},
			{"an orphan", append(slices.Clone(due), orphan), 9, false},
		} {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				was := b.state(t)
				jobs, err := b.dueJobs(Query{Limit: 9, AtOnce: c.atOnce, Retry: b.time(90 * second)})
				check(t, err)
				if !c.moved {
					if len(jobs.Moved) > 0 || jobs.Count.Total() < 2 || !reflect.DeepEqual(b.state(t), was) {
						t.Errorf("it moved %+v of %v", jobs.Moved, jobs.Count)
					}
					return
				}
				got := map[string]int{}
				for _, m := range jobs.Moved {
					got[m.Topic] = len(m.IDs)
					if m.PutBack > 0 || m.Skipped > 0 || m.CantPublish != nil || m.Late.Jobs() != int64(len(m.IDs)) || m.Late.Sum < 3 {
						t.Errorf("moved %+v", m)
					}
				}
				if want := map[string]int{"t": 2, "u": 1}; !reflect.DeepEqual(got, want) || len(jobs.Batches) > 0 || jobs.Count.Total() > 0 || jobs.More || jobs.Next <= 0 {
					t.Errorf("moved %v, want %v; left %v, more %v, next %v", got, want, jobs.Count, jobs.More, jobs.Next)
				}
			})
		}
		t.Run("a queue that is no list", func(t *testing.T) {
			b.seed(t, append(slices.Clone(due), text("ready_queue:u"))...)
			jobs, err := b.dueJobs(Query{Limit: 9, AtOnce: 9, Retry: b.time(90 * second)})
			if err != nil || len(jobs.Moved) != 2 {
				t.Fatalf("%+v, %v", jobs, err)
			}
			if m := jobs.Moved[1]; m.Topic != "u" || m.PutBack != 1 || m.Refused == nil || len(m.IDs) > 0 || len(jobs.Moved[0].IDs) != 2 {
				t.Errorf("moved %+v", jobs.Moved)
			}
			again, err := b.dueJobs(Query{Limit: 9, AtOnce: 9, Retry: b.time(90 * second)})
			if err != nil || len(again.Moved) > 0 || again.Next <= 55*time.Second {
				t.Errorf("then %+v, %v", again, err)
			}
		})
	})
}
