package client_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// group pushes a body to a group of topic t.
func (f *fixture) group(key, body string, o client.Group, opts ...client.PushOption) (id string, did client.Outcome) {
	f.TB.Helper()
	pushed, err := f.Push(f.TB.Context(), client.Message{Topic: "t", Body: body}, 0, append(opts, groupOf(key, o))...)
	check(f.TB, err)
	return pushed.ID, pushed.Outcome
}

// groupOf is the group with that key.
func groupOf(key string, g client.Group) client.Group {
	g.Key = key
	return g
}

var longGroup = client.Group{Longest: time.Hour}

// A group is due when nothing has been pushed to it for Quiet, and at the latest Longest after its first push.
func TestGroupDue(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		options         client.Group
		due             time.Duration // after the first push
		isMoved, isFull bool          // by the second push
	}{
		{options: client.Group{Longest: time.Hour}, due: time.Hour},
		{options: client.Group{Quiet: time.Hour}, due: time.Hour, isMoved: true},
		{options: client.Group{Quiet: time.Hour, Longest: 2 * time.Hour}, due: time.Hour, isMoved: true},
		{options: client.Group{Quiet: 2 * time.Hour, Longest: time.Hour}, due: time.Hour},
		{options: client.Group{Quiet: time.Hour, Longest: 3 * time.Hour, Max: 2}, due: time.Hour, isFull: true},
		{options: client.Group{Quiet: store.MaxDelay, Longest: store.MaxDelay}, due: store.MaxDelay},
	} {
		f.Flush()
		began := f.Clock()
		id, _ := f.group("k", "1", c.options)
		due := f.Due(id)
		if after := due - began; after < c.due.Seconds()-0.001 || after > c.due.Seconds()+20 {
			t.Errorf("%+v: due after %v s, want %v", c.options, after, c.due)
		}
		until(t, "a millisecond is over", func() bool { return f.Clock() > due-c.due.Seconds()+0.002 })
		again, _ := f.group("k", "2", c.options)
		state := state{Pool: []string{id}, Buckets: buckets{id: "t [1,2]"}}
		if c.isFull {
			state.Pool, state.Ready = nil, queues{"t": {id}}
		}
		f.Expect(state)
		if moved := f.Due(id) > due; moved != c.isMoved || again != id {
			t.Errorf("%+v: moved %v, want %v; job %s, want %s", c.options, moved, c.isMoved, again, id)
		}
	}
}

// A group that was delivered before, or that another program has changed, gets no further push; the next push starts
// another group. TestModel has the other ways in which a group ends.
func TestGroupThatIsOver(t *testing.T) {
	f := start(t, undivided)
	for name, end := range map[string]func(id string){
		"replaced by an old client": func(id string) {
			f.Do("HMSET", "delayer:job_bucket:"+id, "topic", "u", "body", "[other]")
		},
		"of no JSON any more": func(id string) { f.Do("HMSET", "delayer:job_bucket:"+id, "topic", "t", "body", "other") },
		"of another type":     func(id string) { f.Do("DEL", "delayer:job_bucket:"+id); f.Do("SET", "delayer:job_bucket:"+id, "x") },
		"to be tried again": func(id string) {
			check(t, f.Reschedule(t.Context(), id, 0))
			check(t, f.reserve("t").Retry(t.Context(), time.Hour, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := f.with(t)
			f.Flush()
			first, _ := f.group("k", "1", longGroup)
			end(first)
			before := f.State().Buckets[first]
			second, did := f.group("k", "2", longGroup)
			third, _ := f.group("k", "3", longGroup)
			if second == first || did != client.OutcomeCreated || third != second {
				t.Errorf("pushed to %s, then to %s (%s) and %s", first, second, did, third)
			}
			if after := f.State().Buckets[first]; after != before {
				t.Errorf("the first one's body is %s, and was %s", after, before)
			}
			job, err := f.Get(t.Context(), second)
			check(t, err)
			if job.Body != "[2,3]" || job.State != client.StateWaiting {
				t.Errorf("got %+v", job)
			}
		})
	}
}

// A body is 1 MiB at most. A group that has no room for the next body becomes ready.
func TestGroupSize(t *testing.T) {
	t.Parallel()
	f := start(t)
	body := `"` + strings.Repeat("x", 300<<10) + `"`
	var ids []string
	for range 7 {
		id, _ := f.group("k", body, longGroup)
		ids = append(ids, id)
	}
	ids = slices.Compact(ids)
	list := func(n int) string { return "[" + strings.Join(slices.Repeat([]string{body}, n), ",") + "]" }
	f.Expect(state{Pool: ids[2:], Ready: queues{"t": ids[:2]}, Buckets: buckets{ids[0]: "t " + list(3), ids[1]: "t " + list(3), ids[2]: "t " + list(1)}})

	// The limit is exact to the byte.
	f.Flush()
	all := strings.Repeat("1", store.MaxGroup-len("[,2]"))
	first, _ := f.group("k", all, longGroup)
	if _, did := f.group("k", "2", longGroup); did != client.OutcomeAdded {
		t.Errorf("the last byte is not used: %s", did)
	}
	second, did := f.group("k", "3", longGroup)
	if did != client.OutcomeCreated {
		t.Errorf("beyond the last byte: %s", did)
	}
	third, _ := f.group("k", all+"11", client.Group{Max: 9, Longest: time.Hour})
	f.Expect(state{Pool: []string{third}, Ready: queues{"t": {first, second}}, Buckets: buckets{
		first: "t [" + all + ",2]", second: "t [3]", third: "t [" + all + "11]",
	}})
	f.Flush()
	results, err := f.PushBatch(t.Context(), []client.Item{
		{Message: client.Message{Topic: "t", Body: all}}, {Message: client.Message{Topic: "t", Body: "2"}}, {Message: client.Message{Topic: "t", Body: "3"}},
	}, groupOf("k", longGroup))
	check(t, err)
	f.Expect(state{Pool: []string{results[2].ID}, Ready: queues{"t": {results[1].ID}}, Buckets: buckets{results[0].ID: "t [" + all + ",2]", results[2].ID: "t [3]"}})
	f.group("k", "1", client.Group{Max: math.MaxInt32, Longest: time.Hour})
	_, err = f.Push(t.Context(), client.Message{Topic: "t", Body: all + "111"}, 0, groupOf("k", longGroup))
	expectText(t, "a body that is too long", err, "invalid body: 1048575 bytes do not fit into a group, which has 1048576 at most")
}

// The options of the latest push apply to the job.
func TestGroupTerms(t *testing.T) {
	f := start(t)
	id, _ := f.group("k", "1", client.Group{Max: 2, Longest: time.Hour}, client.JobOptions{MaxAttempts: 3, Lease: time.Minute, ExpireAfter: time.Hour})
	expect := func(most int, lease, ttl time.Duration) {
		t.Helper()
		job, err := f.Get(t.Context(), id)
		check(t, err)
		if job.Options.MaxAttempts != most || job.Options.Lease != lease || job.TTL > ttl || job.TTL < ttl-time.Minute {
			t.Errorf("got %+v, want %d attempts, %v, and %v", job, most, lease, ttl)
		}
	}
	expect(3, time.Minute, 2*time.Hour)
	f.group("k", "2", longGroup)
	expect(0, 0, time.Hour+store.DefaultLifetime)
	f.group("k", "3", client.Group{Quiet: time.Hour, Longest: 9 * time.Hour}, client.JobOptions{MaxAttempts: 7})
	expect(7, 0, time.Hour+store.DefaultLifetime)
	f.group("k", "4", client.Group{Max: 4, Longest: time.Hour})
	f.Expect(state{Ready: queues{"t": {id}}, Buckets: buckets{id: "t [1,2,3,4]"}})
}

// Topic and key may be any bytes. Two names that look alike are two groups, and all jobs of a group are in one
// partition.
func TestGroupNames(t *testing.T) {
	f := inPartitions(t, 5)
	long := store.MaxGroupKey
	seen := map[string]bool{}
	for _, name := range [][2]string{
		{"t", "k"}, {"t:k", "k"}, {"t", "k:k"}, {"{}t", "}{"}, {"}", "}"}, {"%7D", "%7D"}, {"\x00\xff", "\r\n"},
		{strings.Repeat("}", 1024), strings.Repeat("%", long)},
	} {
		m := client.Message{Topic: name[0], Body: "1"}
		one := client.Group{Key: name[1], Max: 2, Longest: time.Hour}
		var ids []string
		for range 3 {
			pushed, err := f.Push(t.Context(), m, 0, one)
			check(t, err)
			ids = append(ids, pushed.ID)
		}
		if ids[0] != ids[1] || ids[1] == ids[2] || seen[ids[0]] || len(ids[0]) > 4096 {
			t.Errorf("%q: %q", name, ids)
		}
		seen[ids[0]] = true
		got, err := f.Pop(t.Context(), name[0])
		if want := (client.Message{ID: ids[0], Topic: name[0], Body: "[1,1]"}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		was, err := f.Remove(t.Context(), ids[2])
		if was != client.StateWaiting || err != nil {
			t.Errorf("removed %s: %q, %v", ids[2], was, err)
		}
	}
	f.Expect(state{})
}

// Many producers push to few groups at the same time, while their connections are cut and consumers take ready jobs.
// Each push with Once that is repeated until it gets a reply is delivered once, and the pushes of a producer keep their
// order.
func TestGroupRace(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	c := f.as("producer", "~* &* +@all")
	const each, pushers = 150, 8
	options := client.Group{Max: 7, Longest: 100 * time.Millisecond}
	var calls sync.WaitGroup
	for pusher := range pushers {
		calls.Go(func() {
			for n := range each {
				m := client.Message{ID: fmt.Sprint(pusher, n), Topic: "t", Body: fmt.Sprintf("[%d,%d]", pusher, n)}
				for {
					_, err := c.Push(t.Context(), m, 0, groupOf(fmt.Sprint(pusher%3), options), client.IfExists(client.Once(time.Hour)))
					if err == nil || errors.Is(err, client.ErrExists) {
						break
					}
				}
			}
		})
	}
	pushed := make(chan struct{})
	go func() { calls.Wait(); close(pushed) }()
	stop := f.serve()
	defer stop()
	next := [pushers]int{}
	for got, killing := 0, true; got < each*pushers; {
		select {
		case <-pushed:
			killing = false
		default:
		}
		if killing {
			f.Do("CLIENT", "KILL", "USER", "producer")
		}
		m, err := f.Pop(t.Context(), "t")
		if errors.Is(err, client.ErrEmpty) {
			continue
		}
		check(t, err)
		var list [][2]int
		check(t, json.Unmarshal([]byte(m.Body), &list))
		if len(list) > options.Max {
			t.Errorf("%d bodies, want %d at most", len(list), options.Max)
		}
		for _, e := range list {
			if e[1] != next[e[0]] {
				t.Fatalf("push %d of %d was delivered, want %d", e[1], e[0], next[e[0]])
			}
			next[e[0]]++
		}
		got += len(list)
	}
	until(t, "nothing is left", func() bool { s := f.State(); return len(s.Buckets)+len(s.Pool)+len(s.Ready) == 0 })
}

// FuzzGroup checks that a group's body is the array of the bodies pushed to it, for any bodies.
func FuzzGroup(f *testing.F) {
	for _, body := range []string{"", "1", "1,2", "1],[2", "]", "[", `"\ud800"`, "\"\xff\"", " {} ", "nul", "null", "\"\x00\"", "1e999", strings.Repeat("[", 9999) + strings.Repeat("]", 9999), strings.Repeat("[", 10000) + strings.Repeat("]", 10000)} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		if !client.IsElement(body) {
			return
		}
		var list []json.RawMessage
		if err := json.Unmarshal([]byte("["+body+",7]"), &list); err != nil || len(list) != 2 || string(list[0]) != strings.Trim(body, " \t\r\n") {
			t.Errorf("%q: %q, %v", body, list, err)
		}
	})
}
