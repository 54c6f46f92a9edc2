package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

// drain is a Redis on which prefixes are replayed, checked, and drained.
type drain struct {
	*fixture
	server *server.Server
}

func newDrain(t *testing.T) *drain {
	f := newFixture(t)
	return &drain{f, clienttest.Server(f.pool, server.Options{})}
}

// load replays commands.
func (d *drain) load(commands [][][]byte) {
	d.t.Helper()
	d.Flush()
	for _, command := range commands {
		args := make([]any, len(command)-1)
		for i, arg := range command[1:] {
			args[i] = arg
		}
		redistest.Check(d.t, d.conn.Send(string(command[0]), args...))
	}
	replies, err := redis.Values(d.conn.Do(""))
	redistest.Check(d.t, err)
	for _, reply := range replies {
		if err, failed := reply.(error); failed {
			d.t.Fatal(err)
		}
	}
}

// check returns what is wrong with the state, given the models of which one must hold; it is then drained.
func (d *drain) check(state redistest.State, models []jobs) string {
	if complaint := oneStateEach(state); complaint != "" {
		return complaint
	}
	models = slices.Clone(models)
	complaint := ""
	models = slices.DeleteFunc(models, func(m jobs) bool {
		differs := m.differs(state)
		complaint = cmp.Or(complaint, differs)
		return differs != ""
	})
	if len(models) == 0 {
		return complaint
	}
	report, err := New(jobsIn(d.pool), Options{Wait: 10 * time.Millisecond}).Run(d.ctx)
	redistest.Check(d.t, err)
	if len(report.Findings) > 0 {
		return fmt.Sprintf("fsck finds %+v", report.Findings)
	}
	delivered := d.deliver(state)
	complaint = ""
	for _, m := range models { // both, if they differ by a follower only
		differs := cmp.Or(m.notDelivered(delivered), jobs{dead: m.dead}.differs(d.State()))
		if differs == "" {
			return ""
		}
		complaint = cmp.Or(complaint, differs)
	}
	return complaint
}

// notDelivered says how the deliveries differ from the model.
func (j jobs) notDelivered(delivered map[string][]string) string {
	texts := func(of map[string][]string) map[string]string {
		all := map[string]string{}
		for id, list := range of {
			all[id] = strings.Join(list, "; then ")
		}
		return all
	}
	return difference("after the delivery job", texts(delivered), texts(j.alive))
}

// deliver makes all jobs due, and ends all leases, as a consumer's death does; then a server and a consumer do their work.
func (d *drain) deliver(state redistest.State) map[string][]string {
	const pool = "delayer:job_pool"
	for _, id := range state.Pool {
		if !isSchedule(id) {
			d.Do("ZADD", pool, "XX", "1000", id)
		}
	}
	for _, id := range state.Reserved {
		d.Do("ZADD", pool, "XX", "1000.0005", id)
	}
	_, err := d.client.Resume(d.ctx, "paused")
	redistest.Check(d.t, err)
	delivered := map[string][]string{}
	for idle := 0; idle < 2; {
		redistest.Check(d.t, d.server.Pass(d.ctx))
		idle++
		for _, topic := range aofTopics {
			list, err := d.client.Fetch(d.ctx, clienttest.Popped(topic, 250))
			if !errors.Is(err, client.ErrEmpty) {
				redistest.Check(d.t, err)
			}
			for _, m := range list {
				idle = 0
				delivered[m.ID] = append(delivered[m.ID], m.Topic+" "+m.Body)
			}
		}
		for _, id := range d.State().Pool { // followers that wait
			if !isSchedule(id) {
				idle = 0
				d.Do("ZADD", pool, "XX", "1000", id)
			}
		}
	}
	return delivered
}

func isSchedule(id string) bool { return strings.HasSuffix(id, "@schedule") }

// oneStateEach says which job is in no state or in several.
func oneStateEach(s redistest.State) string {
	places := map[string]int{}
	count := func(ids []string) {
		for _, id := range ids {
			places[id]++
		}
	}
	count(s.Pool)
	count(s.Reserved)
	for _, queues := range []map[string][]string{s.Ready, s.Paused} {
		for _, queue := range queues {
			count(queue)
		}
	}
	for id := range s.Buckets {
		if places[id] != 1 {
			return fmt.Sprintf("%s is in %d states", id, places[id])
		}
	}
	return ""
}

// differs says how a state differs from the model.
func (j jobs) differs(s redistest.State) string {
	is := map[string]string{}
	for id, content := range s.Buckets {
		if !isSchedule(id) {
			is[id] = content
		}
	}
	want := map[string]string{}
	for id, list := range j.alive {
		want[id] = list[0]
	}
	return cmp.Or(difference("job", is, want), difference("dead letter", s.Letters, j.dead))
}

// difference names the first difference.
func difference(kind string, is, want map[string]string) string {
	for _, id := range slices.Sorted(maps.Keys(is)) {
		if is[id] != want[id] {
			return fmt.Sprintf("%s %s is %q, want %q", kind, id, is[id], want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if is[id] != want[id] {
			return fmt.Sprintf("%s %s is missing, want %q", kind, id, want[id])
		}
	}
	return ""
}
