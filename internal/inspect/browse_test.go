package inspect

import (
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

func (f *fixture) browse(q Query) Page {
	f.TB.Helper()
	page, err := f.Browse(f.ctx, q)
	f.check(err)
	return page
}

// ids returns the IDs of all pages. It calls between after each page.
func (f *fixture) ids(q Query, between func(page int)) (ids []string) {
	f.TB.Helper()
	for n := 1; ; n++ {
		page := f.browse(q)
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return ids
		}
		if between != nil {
			between(n)
		}
		if n > 1000 {
			f.TB.Fatal("1,000 pages")
		}
	}
}

func names(prefix string, from, to int) (ids []string) {
	for i := from; i < to; i++ {
		ids = append(ids, fmt.Sprint(prefix, i))
	}
	return ids
}

// The jobs of a state come in order, in pages of any size, without jobs of another state or topic.
func TestBrowse(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.pushMany("t", "w", 7, time.Hour, time.Second)
		f.pushMany("u", "v", 5, time.Hour, time.Second)
		for i := range 12 {
			f.push("t", fmt.Sprint("r", i), 0)
		}
		for i := range 3 {
			f.reserve("t", time.Duration(10-i)*time.Minute) // r2's lease ends first
		}
		for i := range 4 {
			f.bury("dead", fmt.Sprint("d", i), "reason", "cause")
			f.Do("ZADD", "delayer:dead_letters:dead", 1000*i, fmt.Sprint("d", i))
		}
		for _, c := range []struct {
			topic, state string
			want         []string
		}{
			{"t", Waiting, names("w", 0, 7)},
			{"u", Waiting, names("v", 0, 5)},
			{"t", Ready, names("r", 3, 12)},
			{"t", Reserved, []string{"r2", "r1", "r0"}},
			{"", Reserved, []string{"r2", "r1", "r0"}},
			{"u", Reserved, nil},
			{"u", Ready, nil},
			{"dead", Dead, []string{"d3", "d2", "d1", "d0"}},
			{"t", Dead, nil},
			{"no such", Waiting, nil},
		} {
			for _, limit := range []int{0, 1, 2, 5, 500} {
				if got := f.ids(Query{Topic: c.topic, State: c.state, Limit: limit}, nil); !slices.Equal(got, c.want) {
					t.Errorf("%s jobs of %q by %d: %q, want %q", c.state, c.topic, limit, got, c.want)
				}
			}
		}
		if all := f.ids(Query{State: Waiting, Limit: 3}, nil); len(all) != 12 {
			t.Errorf("waiting jobs of all topics: %q", all)
		}
	})
}

func TestBrowseTells(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		body := "\x00\xff" + strings.Repeat("<script>", 100)
		_, err := f.client.Push(f.ctx, client.Message{ID: "i\x00\xff", Topic: "t\n", Body: body}, 0)
		f.check(err)
		began := time.Now()
		f.check(f.reserve("t\n", time.Minute).Retry(f.ctx, time.Hour, errors.New(strings.Repeat("e", 2000))))
		page := f.browse(Query{State: Waiting})
		if len(page.Jobs) != 1 || page.Looked != 1 || page.Cursor != "" {
			t.Fatalf("%+v, want 1 job", page)
		}
		j := page.Jobs[0]
		if late := j.At.Sub(began.Add(time.Hour)); late < -time.Second || late > time.Minute {
			t.Errorf("due %v, want in an hour", j.At)
		}
		j.At = time.Time{}
		if want := (Job{ID: "i\x00\xff", Topic: "t\n", Body: body[:256], Size: len(body), Attempts: 1, Error: j.Error}); !reflect.DeepEqual(j, want) {
			t.Errorf("%+v, want %+v", j, want)
		}
		if len(j.Error) == 0 || len(j.Error) > 1024 {
			t.Errorf("the error has %d bytes", len(j.Error))
		}
	})
}

// A page continues where the last one ended, even if the entry is gone, new entries have the same time, and byte order is not
// alphabetical.
func TestBrowseWhileJobsMove(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		ids := []string{"\x00", "\x00\x00", "A", "Z", "Za", "a", "b\x00", "b\xff", "ä", "\xff"}
		slices.Sort(ids)
		seed := func(key, at, bucket string) {
			f.Do("DEL", key)
			for _, id := range ids {
				f.Do("HSET", bucket+id, "topic", "t", "body", "b")
				f.Do("ZADD", key, at, id)
			}
		}
		remove := func(key string, order []string) func(int) {
			return func(page int) {
				f.Do("ZREM", key, order[page-1])
				f.Do("ZADD", key, 5, fmt.Sprint("other", page))
			}
		}
		seed("delayer:job_pool", "9999999999", "delayer:job_bucket:")
		if got := f.ids(Query{State: Waiting, Limit: 1}, remove("delayer:job_pool", ids)); !slices.Equal(got, ids) {
			t.Errorf("waiting: %q, want %q", got, ids)
		}
		seed("delayer:dead_letters:t", "1795000000000", "delayer:dead_letter:")
		newest := slices.Clone(ids)
		slices.Reverse(newest)
		if got := f.ids(Query{Topic: "t", State: Dead, Limit: 1}, remove("delayer:dead_letters:t", newest)); !slices.Equal(got, newest) {
			t.Errorf("dead: %q, want %q", got, newest)
		}
	})
}

// A page survives changes at both ends of a ready queue.
func TestBrowseWhileJobsAreTaken(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		seed := func(ids ...string) {
			f.Do("DEL", "delayer:ready_queue:t")
			for _, id := range ids {
				f.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
				f.Do("LPUSH", "delayer:ready_queue:t", id)
			}
		}
		take := func(n int) func(int) { return func(int) { f.Do("RPOP", "delayer:ready_queue:t", n) } }
		all := names("r", 0, 12)
		for _, c := range []struct {
			name    string
			between func(int)
			want    []string
		}{
			{"fewer than were seen", take(1), all},
			{"all that were seen", take(2), all},
			{"more than were seen", take(3), []string{"r0", "r1", "r3", "r4", "r6", "r7", "r9", "r10"}},
			{"released ones come back", func(int) { f.Do("RPUSH", "delayer:ready_queue:t", "ghost") }, all},
			{"more come", func(int) { f.Do("LPUSH", "delayer:ready_queue:t", "ghost") }, all},
		} {
			seed(all...)
			if got := f.ids(Query{Topic: "t", State: Ready, Limit: 2}, c.between); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		seed("a", "b", "a", "c", "a", "d")
		if got, want := f.ids(Query{Topic: "t", State: Ready, Limit: 1}, nil), []string{"a", "b", "a", "c", "a", "d"}; !slices.Equal(got, want) {
			t.Errorf("with an ID in the queue more than once: %q, want %q", got, want)
		}
	})
}

// Entries of a queue that are not ready jobs of its topic are left out.
func TestBrowseHints(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.ghosts(20)
		f.ready("a", time.Hour)
		f.ready("waits", time.Hour)
		f.Do("ZADD", "delayer:job_pool", "99999999999", "waits")
		f.ready("stray", time.Hour)
		f.Do("HSET", "delayer:job_bucket:stray", "topic", "u")
		f.ready("broken", time.Hour)
		f.Do("SET", "delayer:job_bucket:broken", "text")
		f.Do("ZADD", "delayer:job_pool", "99999999999", "orphan")
		if page := f.browse(Query{Topic: "t", State: Ready}); len(page.Jobs) != 1 || page.Jobs[0].ID != "a" || page.Looked != 24 {
			t.Errorf("ready: %+v, want only a of 24", page)
		}
		if page := f.browse(Query{State: Waiting}); len(page.Jobs) != 1 || page.Jobs[0].ID != "waits" || page.Looked != 2 {
			t.Errorf("waiting: %+v, want only waits of 2", page)
		}
	})
}

// A page reads at most a few thousand entries and returns where to continue.
func TestBrowseIsBounded(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.Do("EVAL", `for i = 1, 10000 do
		redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', i == 9000 and 'rare' or 't', 'body', 'b')
		redis.call('ZADD', 'delayer:job_pool', 9999999999 + i, i)
	end`, 0)
	page := f.browse(Query{Topic: "rare", State: Waiting})
	if len(page.Jobs) != 0 || page.Looked > 5000 || page.Cursor == "" {
		t.Errorf("%d jobs, %d looked at, cursor %q, want none, some thousand, a cursor", len(page.Jobs), page.Looked, page.Cursor)
	}
	if got := f.ids(Query{Topic: "rare", State: Waiting}, nil); !slices.Equal(got, []string{"9000"}) {
		t.Errorf("on all pages: %q, want 9000", got)
	}
	if got := f.browse(Query{Topic: "t", State: Waiting, Limit: MaxPage}); len(got.Jobs) != MaxPage {
		t.Errorf("%d jobs, want a full page", len(got.Jobs))
	}
}

// Large bodies are not read.
func TestBrowseOfLargeBodies(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	sizes := []int{10, 1 << 20, 1<<20 + 1, 1 << 20, 1 << 20, 20}
	for i, size := range sizes {
		f.ready(fmt.Sprint("r", i), time.Hour)
		f.Do("HSET", fmt.Sprint("delayer:job_bucket:r", i), "body", strings.Repeat("b", size))
	}
	sent := func() int { return f.InfoNumber("stats", "total_net_output_bytes") }
	before := sent()
	page := f.browse(Query{Topic: "t", State: Ready})
	if n := sent() - before; n > 50000 {
		t.Errorf("Redis has sent %d bytes", n)
	}
	if len(page.Jobs) != len(sizes) {
		t.Fatalf("%d jobs, want %d", len(page.Jobs), len(sizes))
	}
	for i, j := range page.Jobs {
		want := min(sizes[i], 256)
		if sizes[i] > 1<<20 {
			want = 0
		}
		if j.Size != sizes[i] || len(j.Body) != want {
			t.Errorf("size %d, body %d bytes, want %d, %d", j.Size, len(j.Body), sizes[i], want)
		}
	}
}

func TestBrowseRefuses(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.text("ready_queue:t")
	f.text("dead_letters:t")
	for want, q := range map[string]Query{
		`state "gone"`:          {State: "gone"},
		"topic is empty":        {State: Ready},
		"limit 501":             {State: Waiting, Limit: 501},
		"limit -1":              {State: Waiting, Limit: -1},
		ErrCursor.Error():       {State: Waiting, Cursor: "?"},
		"WRONGTYPE":             {State: Ready, Topic: "t"},
		"against a key":         {State: Dead, Topic: "t"},
		"list jobs: " + "topic": {State: Dead},
	} {
		if _, err := f.Browse(f.ctx, q); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", q, err, want)
		}
	}
}

// Any text as a cursor is refused or accepted without harm.
func FuzzCursor(f *testing.F) {
	for _, text := range []string{"0 1 a", "0  ", "0 inf a", "0 nan a", "1 1 a", "0 99999999999999999999 a", "0 -1 a", "0 1e5 a", "0 0x1p4 \x00", "0 0x_1p4 a", "-1 1 a"} {
		f.Add(text, true)
	}
	r, _ := onRedis(f)
	r.pushMany("t", "w", 3, time.Hour, time.Second)
	r.ready("a", time.Hour)
	f.Fuzz(func(t *testing.T, text string, ready bool) {
		q := Query{State: Waiting, Topic: "t", Cursor: base64.RawURLEncoding.EncodeToString([]byte(text))}
		if ready {
			q.State = Ready
		}
		if _, err := r.Browse(t.Context(), q); err != nil && !errors.Is(err, ErrCursor) {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func TestGlob(t *testing.T) {
	for pattern, texts := range map[string]map[string]bool{
		"mail*":    {"mail": true, "mails": true, "amail": false, "mail\n": true},
		"*.x?":     {".xy": true, "a/b.xä": true, ".x": false},
		"a.b":      {"a.b": true, "axb": false},
		"\xff*":    {"\xffa": true, "\xfea": false, "\ufffda": false},
		"\xff\xfe": {"\xff\xfe": true, "\xff": false},
		"a*b*c":    {"abc": true, "a1b2c": true, "abcbc": true, "ab": false, "acb": false},
		"*??":      {"日本": true, "日": false, "": false},
		"**a":      {"a": true, "ba": true, "b": false},
		"?":        {"日": true, "\xff": true, "": false, "ab": false},
		"":         {"": true, "a": true},
	} {
		for text, want := range texts {
			if got := Glob(pattern)(text); got != want {
				t.Errorf("%q matches %q: %v", pattern, text, got)
			}
		}
	}
}
