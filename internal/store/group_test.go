package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// toGroup returns a push of a body to a group.
func toGroup(topic, key, body string, g Group) Delayed {
	return Delayed{Job{ID: GroupTag(topic, key), Topic: topic, Body: body}, Due{After: g.Longest}, Terms{Lifetime: kept, Policy: Replace, Group: g}, new(Told)}
}

// A due group that no server has moved yet becomes ready before the next group of its key.
func TestGroupThatIsOverIsFirst(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		first := b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Millisecond}))[0]
		due := b.clock(t) + 0.002
		redistest.Until(t, "it is due", func() bool { return b.clock(t) > due })
		second := b.grouped(t, toGroup("t", "k", "2", Group{Max: 2, Longest: time.Hour}))[0]
		if s := b.With(t).State(); !slices.Equal(s.Ready["t"], []string{first.Into}) || !slices.Equal(s.Pool, []string{second.Into}) {
			t.Errorf("ready are %q, and waiting %q; want %q and %q", s.Ready["t"], s.Pool, first.Into, second.Into)
		}
		b.grouped(t, toGroup("t", "k", "3", Group{Max: 2, Longest: time.Hour}))
		for _, want := range []string{"[1]", "[2,3]"} {
			if job, _, err := b.pop(t.Context(), []string{"t"}); job.Body != want || err != nil {
				t.Errorf("delivered is %+v, %v, want %s", job, err, want)
			}
		}
	})
}

// grouped pushes bodies to groups and returns the outcomes.
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

// One call may push to several groups in any order, and any number of bodies to one. Each body joins the waiting group or starts the next
// one.
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

// The key of a group names its job and expires a minute after the group is due. The job is stored like any other.
func TestGroupIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		push := toGroup("t", "k", "1", Group{Longest: time.Hour})
		push.Lifetime = 7 * 24 * time.Hour // the default lifetime, so the job has no options
		id := b.grouped(t, push)[0].Into
		key := b.keys.Group("{t:k}")
		if got := b.do(t, "HGET", key, "id"); fmt.Sprintf("%s", got) != id {
			t.Errorf("kept is %s, want %s", got, id)
		}
		for key, want := range map[string]time.Duration{key: time.Hour + time.Minute, b.keys.JobBucket(id): time.Hour + push.Lifetime} {
			if left := time.Duration(b.do(t, "PTTL", key).(int64)) * time.Millisecond; left > want+2*time.Millisecond || left < want-time.Minute {
				t.Errorf("%s is kept for %v, want %v", key, left, want)
			}
		}
		fields, err := redis.Strings(b.do(t, "HKEYS", b.keys.JobBucket(id)), nil)
		if slices.Sort(fields); err != nil || !slices.Equal(fields, []string{"body", "first", "topic"}) {
			t.Errorf("its bucket has %q, %v", fields, err)
		}
		if b.do(t, "ZSCORE", b.keys.Topics(), "t") == nil {
			t.Error("its topic is not known")
		}
		if !b.recent.cover([]Delayed{push}) {
			t.Error("that its topic is known is forgotten")
		}
		b.do(t, "DEL", key) // as if it were due
		if again := b.grouped(t, toGroup("t", "k", "2", Group{Longest: time.Hour}))[0]; again.Did != DidCreate || again.Into == id {
			t.Errorf("then %+v", again)
		}
	})
}

// A push with Once counts once per group, within one call too, and separately for the next key.
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

// A push that fails changes nothing, neither at maxmemory nor with a broken key of the group. TestWithoutPermission covers missing
// permissions. A broken queue does not refuse the push that fills the group: the server will report it.
func TestGroupRefused(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.grouped(t, toGroup("t", "k", "1", Group{Longest: time.Hour}))
	b.do(t, "SET", b.keys.Group("{t:broken}"), "x")
	was := b.state(t)
	expectRefused := func(reason, key string, most int) {
		t.Helper()
		b.expectError(t, errorOf(b.Push([]Delayed{toGroup("t", key, "2", Group{Max: most, Longest: time.Hour})}).Do(t.Context())), reason)
		b.expect(t, was)
	}
	expectRefused("WRONGTYPE", "broken", 0)
	b.do(t, "CONFIG", "SET", "maxmemory", 1)
	for _, key := range []string{"k", "new"} {
		for _, most := range []int{0, 1, 2} {
			expectRefused("OOM", key, most)
		}
	}
	b.do(t, "CONFIG", "SET", "maxmemory", 0)

	b.seed(t, text("ready_queue:t"))
	full := b.grouped(t, toGroup("t", "k", "1", Group{Max: 1, Longest: time.Hour}))[0].Into
	if due, _ := b.due(t, full); !(due <= b.clock(t)) {
		t.Errorf("the full group is due at %v", due)
	}
}

// A group that becomes full while its topic is paused is parked, like any job that becomes ready.
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

// The body of a large group is also cached as a string for a while. Whatever happens to the string, the group contains all its bodies.
func TestLargeGroup(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		element := `"` + strings.Repeat("x", 5000) + `"`
		for name, spoil := range map[string]func(text string){
			"kept":            func(string) {},
			"gone":            func(text string) { b.do(t, "DEL", text) },
			"longer":          func(text string) { b.do(t, "APPEND", text, ",0]") },
			"shorter":         func(text string) { b.do(t, "SET", text, "[0]") },
			"of another type": func(text string) { b.do(t, "DEL", text); b.do(t, "LPUSH", text, "x") },
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				g := Group{Longest: time.Hour}
				id := b.grouped(t, toGroup("t", "k", element, g))[0].Into
				text := b.keys.GroupText(id)
				for n := 2; n <= 8; n++ {
					push := toGroup("t", "k", element, g)
					push.Group.Max = n / 8 * 8
					b.grouped(t, push)
					body := "[" + strings.Join(slices.Repeat([]string{element}, n), ",") + "]"
					if got := b.bodyOf(t, id); got != body {
						t.Fatalf("with %d bodies: %d bytes, want %d", n, len(got), len(body))
					}
					kept := fmt.Sprintf("%s", b.do(t, "EVAL", "return redis.call('GET', KEYS[1]) or ''", 1, text))
					switch isKept := n >= 4 && n < 8; {
					case isKept && kept != body || !isKept && kept != "":
						t.Errorf("with %d bodies kept are %d bytes", n, len(kept))
					case isKept:
						// The string is kept for a minute; appending to it does not extend that.
						ttl := b.do(t, "PTTL", text).(int64)
						if isAdded := n > 4 && name == "kept"; ttl < 1 || ttl > 60000 || isAdded != (ttl <= 30000) {
							t.Errorf("with %d bodies the text is kept for %d ms", n, ttl)
						}
						b.do(t, "PEXPIRE", text, 30000)
						spoil(text)
					}
				}
				b.expect(t, redistest.State{Ready: map[string][]string{"t": {id}}, Buckets: map[string]string{id: "t " + b.bodyOf(t, id)}})
			})
		}
	})
}

// A call handles a bounded number of groups and bytes, but at least one group. Pushes to further groups are left to another call, with
// nothing of them done.
func TestManyGroups(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for name, c := range map[string]struct {
			held, groups int  // bytes of each group, and the number of groups
			hasNoText    bool // the cached string is deleted
			perCall      int  // pushes per call
		}{
			"new":                     {0, 150, false, 64},
			"small":                   {100, 70, false, (1 << 20) / (16<<10 + 3*100)},
			"large":                   {100 << 10, 12, false, (1 << 20) / (116 << 10)},
			"large, and no text":      {100 << 10, 6, true, (1 << 20) / (316 << 10)},
			"very large":              {700 << 10, 3, false, 1},
			"very large, and no text": {700 << 10, 3, true, 1},
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				var jobs []Delayed
				first := ""
				if c.held > 0 {
					first = `"` + strings.Repeat("x", c.held-4) + `",`
				}
				for i := range c.groups {
					key := fmt.Sprintf("%03d", i)
					if c.held > 0 {
						id := b.grouped(t, toGroup("t", key, strings.TrimSuffix(first, ","), Group{Longest: time.Hour}))[0].Into
						if c.hasNoText {
							b.do(t, "DEL", b.keys.GroupText(id))
						}
					}
					jobs = append(jobs, toGroup("t", key, "1", Group{Longest: time.Hour}))
				}
				for first := 0; first < c.groups; first += c.perCall {
					var push []Delayed // one push to each group, then one more
					for _, body := range []string{"1", "2"} {
						for _, job := range jobs[first:] {
							job.Body, job.Told = body, new(Told)
							push = append(push, job)
						}
					}
					for i, err := range made(t, b.PushAll(push)) {
						isDone := i%(c.groups-first) < c.perCall
						if isDone && err != nil || !isDone && err != ErrLater || isDone != (push[i].Told.Did != DidNothing) || isDone != (push[i].Told.Into != "") {
							t.Fatalf("push %d, of two each to %d groups: %v, %+v", i, c.groups-first, err, push[i].Told)
						}
					}
				}
				want := "t [" + first + "1,2]"
				buckets := b.state(t).Buckets
				if len(buckets) != c.groups {
					t.Errorf("%d groups, want %d", len(buckets), c.groups)
				}
				for id, got := range buckets {
					if got != want {
						t.Fatalf("%s has %d bytes, want %d", id, len(got), len(want))
					}
				}
			})
		}
	})
}

// A user who may not use the cached string can still add to a large group.
func TestLargeGroupWithoutPermission(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.SetUser("~* &* +@all")
	user := b.user()
	element := `"` + strings.Repeat("x", 9000) + `"`
	for command := range strings.FieldsSeq("setrange get hstrlen") {
		b.seed(t)
		pushes := []*backend{user, user, user, b, user, b} // the third push finds no string, the fifth does
		b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
		b.do(t, "ACL", "LOG", "RESET")
		var id string
		for i, by := range pushes {
			if denied := b.do(t, "ACL", "LOG").([]any); i == 3 && len(denied) > 0 {
				t.Errorf("without %s, and without a text, Redis refused %q", command, denied)
			}
			id = by.grouped(t, toGroup("t", "k", element, Group{Longest: time.Hour}))[0].Into
		}
		if want := "[" + strings.Join(slices.Repeat([]string{element}, len(pushes)), ",") + "]"; b.bodyOf(t, id) != want {
			t.Errorf("without %s: %d bytes, want %d", command, len(b.bodyOf(t, id)), len(want))
		}
	}
}

// bodyOf returns the body in the job's bucket.
func (b *backend) bodyOf(t *testing.T, id string) string {
	t.Helper()
	body, err := redis.String(b.do(t, "HGET", b.keys.JobBucket(id), "body"), nil)
	check(t, err)
	return body
}
