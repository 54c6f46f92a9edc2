package fsck

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m, 10)) }

// fixture is a Redis with a client.
type fixture struct {
	*redistest.Fixture
	t      *testing.T
	pool   *redis.Pool
	client *client.Client
	ctx    context.Context
	conn   redis.Conn
	sent   int
}

func newFixture(t *testing.T) *fixture {
	server := redistest.Open(t, redistest.Standalone("the faults are planted in the keys of one partition"))
	pool := server.Pool()
	c := clienttest.On(pool)
	t.Cleanup(func() { c.Close() })
	return &fixture{Fixture: server.Fixture, t: t, pool: pool, client: c, ctx: t.Context(), conn: server.Conn()}
}

// jobsIn returns the jobs of one partition.
func jobsIn(pool *redis.Pool) *fleet.Fleet {
	return redistest.Must(fleet.Open(fleet.NewRedis(pool, 1, nil), ""))
}

// put sends a command whose key is one of Delayer's.
func (f *fixture) put(command, key string, args ...any) {
	f.t.Helper()
	redistest.Check(f.t, f.conn.Send(command, append([]any{"delayer:" + key}, args...)...))
	if f.sent++; f.sent%1000 == 0 {
		f.flush()
	}
}

// flush waits until all commands of put are done.
func (f *fixture) flush() {
	f.t.Helper()
	_, err := f.conn.Do("")
	redistest.Check(f.t, err)
}

// job stores a bucket.
func (f *fixture) job(id, topic string) { f.put("HSET", "job_bucket:"+id, "topic", topic, "body", "b") }

func (f *fixture) run(o Options) Report {
	f.t.Helper()
	if o.Wait == 0 {
		o.Wait = 300 * time.Millisecond
	}
	report, err := New(jobsIn(f.pool), o).Run(f.ctx)
	redistest.Check(f.t, err)
	return report
}

// planting is a fault, and the state after its repair.
type planting struct {
	kind  string
	sound func(f *fixture, i int) // creates sound data around the fault
	plant func(f *fixture, i int)
	after func(f *fixture, i int) // turns the sound data into the repaired state; nil: no difference
}

const future = "99999999999"

func (f *fixture) known(now time.Time, topic string) {
	f.put("ZADD", "topics", fmt.Sprint(now.Unix()), topic)
}

func (f *fixture) ready(now time.Time, id, topic string) {
	f.job(id, topic)
	f.put("LPUSH", "ready_queue:"+topic, id)
	f.known(now, topic)
}

func nameOf(what string, i int) string { return fmt.Sprint(what, i) }

func plantings(now time.Time) []planting {
	return append(plantingsOfSchedules(now), []planting{
		{"lost_job", nil,
			func(f *fixture, i int) { f.job(nameOf("lost", i), "lt") },
			func(f *fixture, i int) { f.ready(now, nameOf("lost", i), "lt") }},
		{"incomplete", nil,
			func(f *fixture, i int) { f.put("HSET", nameOf("job_bucket:half", i), "body", "b") },
			func(f *fixture, i int) { f.Do("HSET", nameOf("fsck:delayer:job_bucket:half", i), "body", "b") }},
		{"reserved_count", nil,
			func(f *fixture, i int) { f.put("HSET", "reserved", nameOf("rc", i), 5) }, nil},
		{"dead_letter_unlisted", nil,
			func(f *fixture, i int) {
				f.put("HSET", nameOf("dead_letter:dl", i), "topic", "dl", "body", "b", "died", 1000+i)
				f.known(now, "dl")
			},
			func(f *fixture, i int) {
				f.put("HSET", nameOf("dead_letter:dl", i), "topic", "dl", "body", "b", "died", 1000+i)
				f.put("ZADD", "dead_letters:dl", 1000+i, nameOf("dl", i))
				f.put("ZADD", "dead_topics", 1000, "dl")
			}},
		{"dead_entry_without_letter",
			func(f *fixture, i int) {
				f.put("HSET", nameOf("dead_letter:de", i), "topic", "de", "body", "b", "died", 1000+i)
				f.put("ZADD", "dead_letters:de", 1000+i, nameOf("de", i))
				f.put("ZADD", "dead_topics", 1, "de")
			},
			func(f *fixture, i int) { f.put("ZADD", "dead_letters:de", 1000+i, nameOf("none", i)) }, nil},
		{"unknown_topic",
			func(f *fixture, i int) {
				f.job(nameOf("un", i), nameOf("ut", i))
				f.put("LPUSH", nameOf("ready_queue:ut", i), nameOf("un", i))
			},
			func(f *fixture, i int) {}, nil},
		{"parked_without_pause",
			func(f *fixture, i int) { f.known(now, nameOf("pt", i)) },
			func(f *fixture, i int) {
				f.job(nameOf("parked", i), nameOf("pt", i))
				f.put("LPUSH", nameOf("paused_queue:pt", i), nameOf("parked", i))
			},
			func(f *fixture, i int) { f.ready(now, nameOf("parked", i), nameOf("pt", i)) }},
		{"group_without_job", nil,
			func(f *fixture, i int) {
				f.put("HSET", fmt.Sprintf("group:{g:%d}", i), "id", nameOf("gone", i))
				f.put("EXPIRE", fmt.Sprintf("group:{g:%d}", i), 3600)
			}, nil},
		{"unreferenced", nil,
			func(f *fixture, i int) {
				f.put("HSET", nameOf("once_content:o", i), "of", "1 x")
				f.put("EXPIRE", nameOf("once_content:o", i), 3600)
			}, nil},
		{"wrong_type", nil,
			func(f *fixture, i int) { f.put("SET", nameOf("dead_letters:wt", i), "text") },
			func(f *fixture, i int) { f.Do("SET", nameOf("fsck:delayer:dead_letters:wt", i), "text") }},
	}...)
}

func plantingsOfSchedules(now time.Time) []planting {
	return []planting{
		{"schedule_unlisted",
			func(f *fixture, i int) {
				f.put("HSET", fmt.Sprintf("job_bucket:{su%d}@schedule", i), "topic", "delayer:schedules", "body", "b", "revision", 1, "next", fmt.Sprint(now.Add(time.Hour).UnixMilli()))
				f.put("ZADD", "job_pool", future, fmt.Sprintf("{su%d}@schedule", i))
			},
			func(f *fixture, i int) {},
			func(f *fixture, i int) { f.put("ZADD", "schedules", 0, nameOf("su", i)) }},
		{"schedule_without_entry",
			func(f *fixture, i int) {
				f.put("HSET", fmt.Sprintf("job_bucket:{se%d}@schedule", i), "topic", "delayer:schedules", "body", "b", "revision", 1, "next", "99999999999000")
				f.put("ZADD", "schedules", 0, nameOf("se", i))
			},
			func(f *fixture, i int) {},
			func(f *fixture, i int) { f.put("ZADD", "job_pool", future, fmt.Sprintf("{se%d}@schedule", i)) }},
		{"schedule_without_job", nil,
			func(f *fixture, i int) { f.put("ZADD", "schedules", 0, nameOf("sj", i)) }, nil},
	}
}

// Each fault is planted many times while original consumers pop and other clients push, reserve and pop. All faults are found and
// repaired, nothing else changes, and no job is delivered twice.
func TestAllFaultsUnderLoad(t *testing.T) {
	times := 1000
	if testing.Short() {
		times = 50
	}
	f := newFixture(t)
	now := time.Now()
	each := func(what func(p planting) func(*fixture, int)) {
		for _, p := range plantings(now) {
			for i := 0; what(p) != nil && i < times; i++ {
				what(p)(f, i)
			}
		}
		f.flush()
	}
	each(func(p planting) func(*fixture, int) { return p.sound })
	each(func(p planting) func(*fixture, int) { return p.after })
	want := f.State()
	f.Flush()
	each(func(p planting) func(*fixture, int) { return p.sound })
	each(func(p planting) func(*fixture, int) { return p.plant })

	stop := f.load()
	found := f.run(Options{})
	report := f.run(Options{Repair: true})
	again := f.run(Options{Repair: true})
	delivered := stop()

	for _, p := range plantings(now) {
		for what, r := range map[string]Report{"found": found, "repaired": report} {
			i := slices.IndexFunc(r.Findings, func(of Finding) bool { return of.Kind == p.kind })
			if i < 0 || r.Findings[i].Found != times || r.Findings[i].Repaired != 0 && what == "found" || r.Findings[i].Left != 0 && what == "repaired" {
				t.Errorf("%s, %s: %+v, want %d", p.kind, what, r.Findings[max(i, 0)], times)
			}
		}
	}
	if len(report.Findings) != len(plantings(now)) {
		t.Errorf("other findings: %+v", report.Findings)
	}
	if len(again.Findings) > 0 {
		t.Errorf("afterwards: %+v", again.Findings)
	}
	for id, n := range delivered {
		if n != 1 {
			t.Errorf("job %s was delivered %d times", id, n)
		}
	}
	f.compare(want)
}

// compare compares the whole state, except for the order of queue entries.
func (f *fixture) compare(want redistest.State) {
	f.t.Helper()
	got := f.State()
	for _, s := range []*redistest.State{&got, &want} {
		for _, lists := range []map[string][]string{s.Ready, s.Paused, s.Dead} {
			for _, list := range lists {
				slices.Sort(list)
			}
		}
		slices.Sort(s.Pool)
	}
	g, w := reflect.ValueOf(got), reflect.ValueOf(want)
	for i := range g.NumField() {
		if !reflect.DeepEqual(g.Field(i).Interface(), w.Field(i).Interface()) && g.Field(i).Len()+w.Field(i).Len() > 0 {
			f.t.Errorf("%s: %.300v, want %.300v", g.Type().Field(i).Name, g.Field(i).Interface(), w.Field(i).Interface())
		}
	}
}

// popAsOld pops like the original until all are pushed and the queue is empty.
func (f *fixture) popAsOld(pushed context.Context, count func(id string, n int)) {
	conn := f.pool.Get()
	defer conn.Close()
	for {
		id, err := redis.String(conn.Do("RPOP", "delayer:ready_queue:old"))
		if errors.Is(err, redis.ErrNil) {
			if pushed.Err() != nil {
				return
			}
			time.Sleep(time.Millisecond)
			continue
		}
		redistest.Check(f.t, err)
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		job, err := redis.StringMap(conn.Do("HGETALL", "delayer:job_bucket:"+id))
		redistest.Check(f.t, err)
		if job["topic"] == "" {
			f.t.Errorf("%s has no bucket", id)
		}
		time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
		_, err = conn.Do("DEL", "delayer:job_bucket:"+id)
		redistest.Check(f.t, err)
		count(id, 1)
	}
}

// load pushes and takes jobs until stop, which returns how often each was delivered.
func (f *fixture) load() (stop func() map[string]int) {
	ctx, cancel := context.WithCancel(f.ctx)
	var mu sync.Mutex
	delivered := map[string]int{}
	var producers, consumers sync.WaitGroup
	count := func(id string, n int) {
		mu.Lock()
		defer mu.Unlock()
		delivered[id] += n
	}
	for k := range 4 {
		topic := []string{"old", "new"}[k%2]
		producers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("load-%d-%d", k, i)
				count(id, 0)
				_, err := f.client.Push(f.ctx, client.Message{ID: id, Topic: topic, Body: "b"}, 0)
				redistest.Check(f.t, err)
				time.Sleep(time.Millisecond)
			}
		})
	}
	pushed, end := context.WithCancel(f.ctx)
	for range 8 {
		consumers.Go(func() { f.popAsOld(pushed, count) })
	}
	for k := range 4 {
		consumers.Go(func() {
			for pushed.Err() == nil || len(f.Queue("new")) > 0 {
				if k%2 == 0 {
					m, err := f.client.BPop(f.ctx, 50*time.Millisecond, "new")
					if err == nil {
						count(m.ID, 1)
					}
					continue
				}
				list, _ := f.client.Fetch(f.ctx, clienttest.Ready("new", 1, time.Minute))
				for _, d := range list {
					count(d.ID, 1)
					redistest.Check(f.t, d.Ack(f.ctx))
				}
			}
		})
	}
	return func() map[string]int {
		cancel()
		producers.Wait()
		end()
		consumers.Wait()
		return maps.Clone(delivered)
	}
}
