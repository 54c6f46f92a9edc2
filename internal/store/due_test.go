package store

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (s *Store) dueJobs(q Query) (DueJobs, error) {
	return s.Due(q).Do(context.Background())
}

// found is a comparable form of DueJobs.
type found struct {
	topics  map[string][]string
	order   []string // topics in order
	orphans []string
	more    bool
}

func foundBy(jobs DueJobs) found {
	f := found{orphans: jobs.Orphans.Strings(), more: jobs.More}
	for _, batch := range jobs.Batches {
		if f.topics == nil {
			f.topics = map[string][]string{}
		}
		f.topics[batch.Topic] = batch.IDs.Strings()
		f.order = append(f.order, batch.Topic)
	}
	return f
}

const noNext = time.Duration(-1)

type byTopic = map[string][]string

var tenDue = func() (seeds [][]command) {
	for n := range 10 {
		seeds = append(seeds, waits(fmt.Sprint("j", n), "t", after(n-20)*second))
	}
	return append(seeds, waits("later", "t", 60*second))
}()

var dueCases = []struct {
	name        string
	seed        [][]command
	limit, skip int
	want        found
	next        any // a time.Duration is exact, an after relative to the seed
}{
	{"empty", nil, 9, 0, found{}, noNext},
	{"not yet", [][]command{waits("a", "t", 60*second), waits("b", "t", 50*second)}, 9, 0, found{}, 50 * second},
	{"one", [][]command{waits("a", "t", -second)}, 9, 0, found{byTopic{"t": {"a"}}, []string{"t"}, nil, false}, noNext},
	{
		"in due order, whatever the score",
		[][]command{
			waits("f", "t", -second), waits("zero", "t", 0), waits("past", "t", "-5"), waits("e", "t", -2*second), waits("always", "t", "-inf"),
			waits("d", "t", -2*second-1e6), waits("soon", "t", 60*second+after(250*time.Millisecond)), waits("never", "t", "inf"),
		}, 9, 0, found{byTopic{"t": {"always", "past", "zero", "d", "e", "f"}}, []string{"t"}, nil, false}, 60*second + after(250*time.Millisecond),
	},
	{"at the same time, by ID", [][]command{waits("b", "t", -second), waits("c", "t", -second), waits("a", "t", -second)}, 9, 0, found{byTopic{"t": {"a", "b", "c"}}, []string{"t"}, nil, false}, noNext},
	{"never due", [][]command{waits("never", "t", "inf")}, 9, 0, found{}, time.Hour},
	{"far from due", [][]command{waits("far", "t", after(1000*time.Hour))}, 9, 0, found{}, time.Hour},
	{
		"by topic, the one that is due first first",
		[][]command{waits("a", "v", -5*second), waits("b", "t", -4*second), waits("c", "u", -3*second), waits("d", "v", -2*second), waits("e", "t", -second)}, 9, 0,
		found{byTopic{"v": {"a", "d"}, "t": {"b", "e"}, "u": {"c"}}, []string{"v", "t", "u"}, nil, false}, noNext,
	},
	{
		"orphans",
		[][]command{
			waits("a", "t", -5*second), {{"ZADD", "delayer:job_pool", -4 * second, "no bucket"}}, waits("b", "t", -3*second),
			{{"ZADD", "delayer:job_pool", -2 * second, "no topic"}, {"HSET", "delayer:job_bucket:no topic", "body", "b"}},
			{{"ZADD", "delayer:job_pool", -second, "no hash"}}, text("job_bucket:no hash"),
			{{"ZADD", "delayer:job_pool", 60 * second, "not due"}},
		}, 9, 0, found{byTopic{"t": {"a", "b"}}, []string{"t"}, []string{"no bucket", "no topic", "no hash"}, false}, 60 * second,
	},
	{"limit", tenDue, 3, 0, found{byTopic{"t": {"j0", "j1", "j2"}}, []string{"t"}, nil, true}, 60 * second},
	{"limit and skip", tenDue, 3, 2, found{byTopic{"t": {"j2", "j3", "j4"}}, []string{"t"}, nil, true}, 60 * second},
	{"skip all", tenDue, 3, 10, found{}, 60 * second},
	{"limit 0", tenDue, 0, 0, found{more: true}, 60 * second},
}

func TestDue(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range dueCases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				was := b.state(t)
				var jobs DueJobs
				var err error
				asked := b.timed(t, func() { jobs, err = b.dueJobs(Query{Limit: c.limit, Skip: Counts{Backlog: c.skip}}) })
				check(t, err)
				got := foundBy(jobs)
				if len(got.orphans) == 0 {
					got.orphans = nil
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				switch next := c.next.(type) {
				case time.Duration:
					if jobs.Next != next {
						t.Errorf("next in %v, want %v", jobs.Next, next)
					}
				case after: // relative to a running clock, but not a microsecond before the job is due
					at := b.base + time.Duration(next).Seconds()
					if jobs.Next.Seconds() < at-asked.to-2e-6 || jobs.Next.Seconds() > at-asked.from+2e-6 {
						t.Errorf("next in %v, want between %v and %v s", jobs.Next, at-asked.to, at-asked.from)
					}
				}
				b.expect(t, was)
			})
		}
		t.Run("wrong type of pool", func(t *testing.T) {
			due := func() error { return errOf(b.dueJobs(Query{Limit: 9})) }
			b.expectRefused(t, "WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)", due, text("job_pool"))
		})
	}, alone)
}

// Jobs that fell due since a time, by Redis's clock, get at most half of an answer; the backlog fills the rest.
func TestDueFresh(t *testing.T) {
	seed := [][]command{waits("later", "t", 60*second)}
	for n := range 10 {
		seed = append(seed, waits(fmt.Sprint("j", n), []string{"t", "u"}[n%2], after(n-20)*second))
	}
	fresh := func(topic string, ids ...string) Batch { b := batch(topic, ids...); b.Fresh = true; return b }
	between := -14*second - after(time.Second/2) // between j5 and j6
	cases := []struct {
		name  string
		limit int
		since after
		skip  Counts
		want  []Batch
		count Counts
	}{
		{"fresh ones first", 9, between, Counts{}, []Batch{fresh("t", "j6", "j8"), fresh("u", "j7", "j9"), batch("t", "j0", "j2", "j4"), batch("u", "j1", "j3")}, Counts{5, 4}},
		{"half each", 4, between, Counts{}, []Batch{fresh("t", "j6"), fresh("u", "j7"), batch("t", "j0"), batch("u", "j1")}, Counts{2, 2}},
		{"just due then", 4, -14 * second, Counts{}, []Batch{fresh("u", "j7"), fresh("t", "j8"), batch("t", "j0"), batch("u", "j1")}, Counts{2, 2}},
		{"passing over", 4, between, Counts{1, 2}, []Batch{fresh("t", "j8"), fresh("u", "j9"), batch("u", "j1"), batch("t", "j2")}, Counts{2, 2}},
		{"a backlog that leaves room", 4, between, Counts{5, 1}, []Batch{fresh("u", "j7", "j9"), fresh("t", "j8"), batch("u", "j5")}, Counts{1, 3}},
		{"no backlog left", 3, between, Counts{6, 0}, []Batch{fresh("t", "j6", "j8"), fresh("u", "j7")}, Counts{0, 3}},
		{"no fresh ones left", 3, between, Counts{0, 4}, []Batch{batch("t", "j0", "j2"), batch("u", "j1")}, Counts{3, 0}},
		{"all are fresh", 9, -100 * second, Counts{}, []Batch{fresh("t", "j0", "j2", "j4", "j6", "j8"), fresh("u", "j1", "j3", "j5", "j7")}, Counts{0, 9}},
		{"a time to come: all are backlog", 2, 100 * second, Counts{}, []Batch{batch("t", "j0"), batch("u", "j1")}, Counts{2, 0}},
	}
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, seed...)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				jobs, err := b.dueJobs(Query{Limit: c.limit, Since: b.time(c.since), Skip: c.skip})
				more := c.count.Plus(c.skip).Total() < 10
				if err != nil || jobs.More != more || jobs.Count != c.count || !reflect.DeepEqual(jobs.Batches, c.want) {
					t.Errorf("got %+v, %v, more: %v, %v\nwant %+v, %v, more: %v", jobs.Count, jobs.Batches, jobs.More, err, c.count, c.want, more)
				}
			})
		}
		now, err := b.dueJobs(Query{})
		check(t, err)
		jobs, err := b.dueJobs(Query{Limit: 9, Since: now.Now})
		if err != nil || jobs.Count != (Counts{Backlog: 9}) {
			t.Errorf("since an answer's own time: %+v, %v", jobs.Count, err)
		}
	})
}

// time returns the time at an offset from the seed.
func (b *backend) time(offset after) time.Time {
	return time.UnixMicro(int64(math.Round(b.base*1e6)) + time.Duration(offset).Microseconds())
}

// An answer has about 1 MiB of IDs, however long they are: half of it of each kind, and at least one of each.
func TestDueIsBoundedInBytes(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	b, _ := onRedis(t, alone)
	for _, c := range []struct {
		jobs, bytes int // due jobs of each kind, and the length of an ID
		want        Counts
	}{
		{300, 20, Counts{250, 250}},
		{300, 3000, Counts{175, 175}},
		{50, 100_000, Counts{6, 6}},
		{30, 1 << 20, Counts{1, 1}},
	} {
		b.seed(t)
		for n := range 2 * c.jobs {
			score := b.score(after(n/c.jobs)*10*second - 20*second)
			b.do(t, "EVAL", `local id = string.rep('x', ARGV[1] - 3) .. string.format('%03d', ARGV[2])
				redis.call('ZADD', KEYS[1], ARGV[3], id)
				redis.call('HSET', 'delayer:job_bucket:' .. id, 'topic', 't')`, 1, "delayer:job_pool", c.bytes, n, score)
		}
		jobs, err := b.dueJobs(Query{Limit: 500, Since: b.time(-15 * second)})
		if err != nil || jobs.Count != c.want || !jobs.More || len(jobs.Batches) != 2 || len(jobs.Batches[0].IDs) != c.want.Fresh || len(jobs.Batches[1].IDs) != c.want.Backlog {
			t.Errorf("%d jobs with IDs of %d bytes: %+v in %d batches, more: %v, %v, want %+v", 2*c.jobs, c.bytes, jobs.Count, len(jobs.Batches), jobs.More, err, c.want)
		}
	}
}

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
