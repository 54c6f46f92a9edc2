package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// toGroup is a body for a group.
func toGroup(topic, key, body string, g Group) Delayed {
	return Delayed{Job{GroupTag(topic, key), topic, body}, Due{After: g.Longest}, Terms{Lifetime: kept, Policy: Replace, Group: g}, new(Told)}
}

// grouped pushes bodies to groups, and returns what that did.
func (b *backend) grouped(t *testing.T, jobs ...Delayed) (told []Told) {
	t.Helper()
	for _, err := range made(t, b.Push(jobs)) {
		check(t, err)
	}
	for _, job := range jobs {
		told = append(told, *job.Told)
	}
	return told
}

// One call has the bodies of several groups, in any order, and of one as many as there are; each is added to the one that
// waits, or begins the next one.
func TestGroups(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		three := Group{Max: 3, Longest: time.Hour}
		first := b.grouped(t, toGroup("t", "k", "0", three))[0]
		if first.Did != DidCreate || !strings.HasPrefix(first.Into, "{t:k}") {
			t.Fatalf("the first push: %+v", first)
		}
		var jobs []Delayed
		for i := range 8 {
			jobs = append(jobs, toGroup("t", "k", fmt.Sprint("1", i), three))
			if i%3 == 0 {
				jobs = append(jobs, toGroup("u", "k", fmt.Sprint("2", i), three))
			}
		}
		told := b.grouped(t, jobs...)
		var into []string
		var did []Outcome
		for _, i := range []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10} {
			into, did = append(into, told[i].Into), append(did, told[i].Did)
		}
		second, third, other := told[3].Into, told[7].Into, told[1].Into
		if want := []string{first.Into, other, first.Into, second, second, other, second, third, third, other, third}; !slices.Equal(into, want) {
			t.Errorf("pushed to %q, want %q", into, want)
		}
		if want := []Outcome{DidAdd, DidCreate, DidAdd, DidCreate, DidAdd, DidAdd, DidAdd, DidCreate, DidAdd, DidAdd, DidAdd}; !slices.Equal(did, want) {
			t.Errorf("they did %v, want %v", did, want)
		}
		b.expect(t, redistest.State{
			Ready: map[string][]string{"t": {first.Into, second, third}, "u": {other}},
			Buckets: map[string]string{
				first.Into: "t [0,10,11]", second: "t [12,13,14]", third: "t [15,16,17]", other: "u [20,23,26]",
			},
		})
		if n := b.do(t, "EXISTS", b.keys.Group("{t:k}"), b.keys.Group("{u:k}")); n != int64(0) {
			t.Errorf("%v groups that are full take pushes", n)
		}
	})
}

// What is kept of a group expires when it is due, and says which job it is. The job is kept as any other.
func TestGroupIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		id := b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Hour}))[0].Into
		key := b.keys.Group("{t:k}")
		if got := b.do(t, "HGET", key, "id"); fmt.Sprintf("%s", got) != id {
			t.Errorf("kept is %s, want %s", got, id)
		}
		for key, want := range map[string]time.Duration{key: time.Hour, b.keys.JobBucket(id): time.Hour + kept} {
			if left := time.Duration(b.do(t, "PTTL", key).(int64)) * time.Millisecond; left > want+2*time.Millisecond || left < want-time.Minute {
				t.Errorf("%s is kept for %v, want %v", key, left, want)
			}
		}
		b.do(t, "DEL", key) // as if it were due
		if again := b.grouped(t, toGroup("t", "k", "2", Group{Longest: time.Hour}))[0]; again.Did != DidCreate || again.Into == id {
			t.Errorf("then %+v", again)
		}
	})
}

// An ID that counts once counts once for a group, also within one call, and is another one for the next key.
func TestGroupOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		push := func(key, id string) Delayed {
			d := toGroup("t", key, `"`+id+`"`, Group{Longest: time.Hour})
			d.ID, d.Policy = d.ID+id, Once(time.Hour)
			return d
		}
		batch := []Delayed{push("k", "a"), push("k", "b"), push("k", "a"), push("other", "a")}
		errs := made(t, b.PushAll(batch))
		if errs[2] != ErrExists || batch[2].Told.Did != DidRefuse || batch[2].StoredID() != "a" || errs[0] != nil || errs[1] != nil || errs[3] != nil {
			t.Errorf("got %v, %+v", errs, batch[2].Told)
		}
		again := push("k", "b")
		if errs := made(t, b.Push([]Delayed{again})); errs[0] != ErrExists {
			t.Errorf("pushed once more: %v", errs)
		}
		group, other := batch[0].Told.Into, batch[3].Told.Into
		b.expect(t, redistest.State{
			Pool:    []string{group, other},
			Buckets: map[string]string{group: `t ["a","b"]`, other: `t ["a"]`},
			Once:    []string{"{t:k}a", "{t:k}b", "{t:other}a"},
		})
	})
}

// At maxmemory nothing changes; nor for want of a permission, see TestWithoutPermission.
func TestGroupAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Hour}))
	was := b.state(t)
	b.do(t, "CONFIG", "SET", "maxmemory", 1)
	for _, key := range []string{"k", "new"} {
		for _, most := range []int{0, 1, 2} {
			_, err := b.Push([]Delayed{toGroup("t", key, "2", Group{Max: most, Longest: time.Hour})}).Do(t.Context())
			if err == nil || !strings.Contains(err.Error(), "OOM") {
				t.Errorf("%s, %d at most: %v", key, most, err)
			}
		}
	}
	b.do(t, "CONFIG", "SET", "maxmemory", 0)
	b.expect(t, was)
}

// A group that is full while its topic is paused is set aside, as all that is ready then.
func TestGroupOfAPausedTopic(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		made(t, b.Pause("t", time.Hour, ""))
		id := b.grouped(t, toGroup("t", "k", "1", Group{Max: 1, Longest: time.Hour}))[0].Into
		if _, _, err := b.pop(t.Context(), []string{"t"}); err != ErrEmpty {
			t.Errorf("a pop: %v", err)
		}
		if list, err := redis.Strings(b.do(t, "LRANGE", "delayer:paused_queue:t", 0, -1), nil); err != nil || !slices.Equal(list, []string{id}) {
			t.Errorf("set aside are %q, %v, want %s", list, err, id)
		}
	})
}
