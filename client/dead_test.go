package client_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// bury makes a dead letter of a new job.
func (f *fixture) bury(id, topic, reason string) {
	f.TB.Helper()
	f.push(id, topic)
	check(f.TB, f.reserve(topic).Bury(f.TB.Context(), errors.New(reason)))
}

// letters returns the topic's dead letters from Dead.
func (f *fixture) letters(topic string) (letters []client.JobInfo) {
	f.TB.Helper()
	for d, err := range f.Dead(f.TB.Context(), topic) {
		check(f.TB, err)
		letters = append(letters, d)
	}
	return letters
}

// seedDead seeds n dead letters of the topic, 0000, 0001 and so on; perMillisecond of them die in each millisecond.
func (f *fixture) seedDead(topic string, n, perMillisecond int) {
	f.TB.Helper()
	f.Do("EVAL", `for i = 0, ARGV[2] - 1 do
		local id, died = string.format('%04d', i), 1700000000000 + math.floor(i / ARGV[3])
		redis.call('HSET', 'delayer:dead_letter:' .. id, 'topic', ARGV[1], 'body', 'body', 'attempts', 1, 'reason', 'seeded', 'died', died)
		redis.call('ZADD', 'delayer:dead_letters:' .. ARGV[1], died, id)
		redis.call('ZADD', 'delayer:dead_topics', 'NX', died, ARGV[1])
	end`, 0, topic, n, perMillisecond)
}

// dead returns the IDs of the dead letters.
func (f *fixture) dead(topic string) (ids []string) {
	f.TB.Helper()
	for _, d := range f.letters(topic) {
		ids = append(ids, d.ID)
	}
	return ids
}

// Dead returns the full content of this topic's letters only, newest first. A newer dead letter of an ID replaces the
// older one, even in another topic.
func TestDead(t *testing.T) {
	f := start(t, undivided)
	if ids := f.dead("t"); ids != nil {
		t.Errorf("dead letters out of nothing: %q", ids)
	}
	from := f.Clock()
	f.bury("a", "t", "no such order")
	f.bury("other", "u", "x")
	f.bury("b", "v", "replaced")
	f.push("b", "t")
	check(t, f.reserve("t").Retry(t.Context(), 0, errors.New("refused")))
	check(t, f.reserve("t").Bury(t.Context(), errors.New("given up")))
	f.Do("ZADD", "delayer:dead_letters:t", 1, "deleted by hand")
	expect := func(want ...client.JobInfo) {
		t.Helper()
		got := f.letters("t")
		for i, d := range got {
			if job, err := f.Get(t.Context(), d.ID); err != nil || !reflect.DeepEqual(job, d) {
				t.Errorf("Get returns %+v, %v, and Dead %+v", job, err, d)
			}
			expectSpan(t, "death of "+d.ID, float64(d.Due.UnixMicro())/1e6, from, f.Clock())
			got[i].Due = time.Time{}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("dead letters:\n got %+v\nwant %+v", got, want)
		}
	}
	a := client.JobInfo{Message: client.Message{ID: "a", Topic: "t", Body: "body"}, State: client.StateDead, TTL: -1, Attempts: 1, Reason: "no such order", Error: "no such order"}
	b := client.JobInfo{Message: client.Message{ID: "b", Topic: "t", Body: "body"}, State: client.StateDead, TTL: -1, Attempts: 2, Reason: "given up", Error: "given up"}
	expect(b, a)
	if ids := f.dead("v"); ids != nil {
		t.Errorf("of a topic whose one dead letter was replaced: %q", ids)
	}
	f.put(client.Message{ID: "b", Topic: "t", Body: "new"}, 0)
	check(t, f.reserve("t").Bury(t.Context(), errors.New("new")))
	b.Body, b.Attempts, b.Reason, b.Error = "new", 1, "new", "new"
	expect(b, a)
	f.push("c", "v")
	check(t, f.reserve("v").Retry(t.Context(), 0, errors.New("refused")))
	check(t, f.reserve("v").Retry(t.Context(), 0, nil))
	check(t, f.reserve("v").Bury(t.Context(), nil))
	if c, err := f.Get(t.Context(), "c"); c.Reason != "buried" || c.Error != "refused" || err != nil {
		t.Errorf("buried without a cause: %+v, %v", c, err)
	}
}

// A loop over the dead letters may change them: each comes once.
func TestDeadWhileTheyGo(t *testing.T) {
	const letters = 350
	remove := func(each int) func(f *fixture, id string, n int) {
		return func(f *fixture, id string, n int) {
			if n%each < each-1 {
				return
			}
			if was, err := f.Remove(f.TB.Context(), id); was != client.StateDead || err != nil {
				f.TB.Fatalf("Remove = %q, %v", was, err)
			}
		}
	}
	for name, change := range map[string]func(f *fixture, id string, n int){
		"all are removed":            remove(1),
		"every hundredth is removed": remove(100),
		"each is sent again and dies at once": func(f *fixture, id string, n int) {
			check(f.TB, f.Requeue(f.TB.Context(), id))
			check(f.TB, f.reserve("t").Bury(f.TB.Context(), errors.New("again")))
		},
	} {
		for _, perMillisecond := range []int{1, letters} {
			t.Run(fmt.Sprint(name, ", ", perMillisecond, " a millisecond"), func(t *testing.T) {
				f := start(t, undivided)
				f.seedDead("t", letters, perMillisecond)
				seen := map[string]bool{}
				for d, err := range f.Dead(t.Context(), "t") {
					check(t, err)
					if seen[d.ID] {
						t.Fatalf("%s comes again, after %d", d.ID, len(seen))
					}
					change(f, d.ID, len(seen))
					seen[d.ID] = true
				}
				if len(seen) != letters {
					t.Errorf("%d of %d came", len(seen), letters)
				}
			})
		}
	}
}

// An error ends the loop. After a break the loop makes no more calls.
func TestDeadEnds(t *testing.T) {
	f := start(t, alone, undivided)
	f.seedDead("t", 150, 1)
	f.dead("t")
	before := f.Calls("evalsha")
	for range f.Dead(t.Context(), "t") {
		break
	}
	if n := f.Calls("evalsha") - before; n != 1 {
		t.Errorf("%d pages were read for one letter", n)
	}
	f.Do("SET", "delayer:dead_letters:broken", "x")
	n := 0
	for d, err := range f.Dead(t.Context(), "broken") {
		n++
		expectText(t, "Dead", err, `delayer: dead "broken": `, "WRONGTYPE")
		if !reflect.DeepEqual(d, client.JobInfo{}) {
			t.Errorf("got %+v", d)
		}
	}
	if n != 1 {
		t.Errorf("%d errors, want 1", n)
	}
}

// RequeueAll requeues all letters, oldest first, except letters with the ID of a job. Its error counts these letters
// and names the first three, and they stay.
func TestRequeueAll(t *testing.T) {
	f := start(t, undivided)
	const letters = 250
	f.seedDead("t", letters, 3)
	if n, err := f.RequeueAll(t.Context(), "other"); n != 0 || err != nil {
		t.Errorf("RequeueAll of another topic = %d, %v", n, err)
	}
	kept := []string{"0000", "0001", "0099", "0100", "0249"}
	for _, id := range kept {
		f.push(id, "elsewhere")
	}
	f.Do("ZADD", "delayer:dead_letters:t", 1, "deleted by hand")
	n, err := f.RequeueAll(t.Context(), "t")
	if n != letters-len(kept) || !errors.Is(err, client.ErrExists) {
		t.Errorf("RequeueAll = %d, %v, want %d, ErrExists", n, err, letters-len(kept))
	}
	expectText(t, "RequeueAll", err, `"0000"`, `"0001"`, `"0099"`, "5 letters stay in all")
	if text := err.Error(); strings.Contains(text, "0100") {
		t.Errorf("it names more: %s", text)
	}
	got := f.State()
	if !slices.Equal(got.Dead["t"], kept) || len(got.Letters) != len(kept) {
		t.Errorf("left are %q", got.Dead["t"])
	}
	if ids := got.Ready["t"]; !slices.IsSorted(ids) || len(ids) != n {
		t.Errorf("ready are %q", ids)
	}
}

// An error that does not concern a single job ends RequeueAll.
func TestRequeueAllOfABrokenQueue(t *testing.T) {
	f := start(t, undivided)
	f.seedDead("t", 250, 1)
	f.Do("SET", "delayer:ready_queue:t", "broken")
	n, err := f.RequeueAll(t.Context(), "t")
	if n != 0 {
		t.Errorf("%d were requeued", n)
	}
	expectText(t, "RequeueAll", err, "WRONGTYPE", "ready_queue:t")
	if got := f.State(); len(got.Dead["t"]) != 250 || len(got.Letters) != 250 || len(got.Buckets) != 0 {
		t.Errorf("%d are left, %d letters, %d buckets", len(got.Dead["t"]), len(got.Letters), len(got.Buckets))
	}
}
