package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// migrating has jobs in all states in the previous layout.
type migrating struct {
	*backend
	*testing.T
	ctx      context.Context
	old, now *Fleet
	jobs     map[string]store.JobInfo  // by ID, as they were in the previous layout
	held     map[string]store.LeaseRef // leases of the reserved jobs
	ready    map[string][]string       // by previous partition, in order of delivery
	read     time.Time                 // when the jobs were read
}

func newMigrating(t *testing.T, b *backend, l Layout, jobs int) *migrating {
	t.Helper()
	b.do(t, "FLUSHALL")
	m := &migrating{backend: b, T: t, ctx: t.Context(), jobs: map[string]store.JobInfo{}, held: map[string]store.LeaseRef{}, ready: map[string][]string{}}
	m.old, m.now = Layout{Partitions: l.Previous}.Open(b.Pool(), store.DefaultPrefix), l.Open(b.Pool(), store.DefaultPrefix)
	for i := range jobs {
		make := []func(string){m.wait, m.beReady, m.beReady, m.retry, m.reserveOne, m.die}[i%6]
		make(fmt.Sprintf("job %d {tag %d}", i, i/3))
	}
	m.read = time.Now()
	for id := range m.jobs {
		m.jobs[id] = made2(t)(m.old.Of(id).Get(m.ctx, id))
	}
	return m
}

func made2(t *testing.T) func(store.JobInfo, error) store.JobInfo {
	return func(found store.JobInfo, err error) store.JobInfo {
		t.Helper()
		check(t, err)
		return found
	}
}

func (m *migrating) store(id, topic string, delay time.Duration) *store.Store {
	m.Helper()
	job := store.Delayed{
		Job: store.Job{ID: id, Topic: topic, Body: "body of " + id}, Due: store.Due{After: delay},
		Terms: store.Terms{Lifetime: 48 * time.Hour, Policy: store.Replace, MaxAttempts: 5, TTR: 7 * time.Second},
	}
	s := m.old.Of(id)
	errs, err := s.Push([]store.Delayed{job}).Do(m.ctx)
	check(m, errors.Join(append(errs, err)...))
	m.jobs[id] = store.JobInfo{}
	return s
}

func (m *migrating) wait(id string) {
	m.store(id, "waits", time.Hour+time.Duration(len(m.jobs))*time.Second)
}

func (m *migrating) beReady(id string) {
	s := m.store(id, "ready", 0)
	m.ready[s.Keys().Prefix()] = append(m.ready[s.Keys().Prefix()], id)
}

func (m *migrating) reserved(id, topic string) (*store.Store, store.LeaseRef) {
	m.Helper()
	s := m.store(id, topic, 0)
	got := made(m.T, s.Reserve(store.Wanted{Topics: []string{topic}, N: 1}, store.Reservation{Lease: time.Hour}))
	if len(got.Jobs) != 1 || got.Jobs[0].ID != id {
		m.Fatalf("reserved %+v, want %s", got, id)
	}
	return s, store.LeaseRef{Topic: topic, ID: id, Token: got.Leases[0].Token}
}

func (m *migrating) reserveOne(id string) { _, m.held[id] = m.reserved(id, "reserved") }

func (m *migrating) retry(id string) {
	s, held := m.reserved(id, "retried")
	made(m.T, s.Retry([]store.Returned{{LeaseRef: held, Delay: 2 * time.Hour, Error: "the error of " + id}}))
}

func (m *migrating) die(id string) {
	s, held := m.reserved(id, "dead")
	made(m.T, s.Bury([]store.Burial{{LeaseRef: held, Reason: "the reason of " + id, Error: "its error"}}))
}

// expectMoved checks that all jobs except but are unchanged in their current partitions.
func (m *migrating) expectMoved(but map[string]store.LeaseRef) {
	m.Helper()
	for id, was := range m.jobs {
		is, err := m.now.Of(id).Get(m.ctx, id)
		if _, stays := but[id]; stays && m.now.OldOf(id) != nil {
			if is, err = m.now.OldOf(id).Get(m.ctx, id); err == nil && is.State != "reserved" {
				m.Errorf("%s is %s in the partition before", id, is.State)
			}
			continue
		}
		if gone := was.TTL - is.TTL; gone < -time.Second || gone > time.Since(m.read)+time.Second {
			m.Errorf("%s is kept for %v, and was for %v", id, is.TTL, was.TTL)
		}
		if known, err := m.now.Of(id).IsKnown(m.ctx, was.Topic); !known || err != nil {
			m.Errorf("%s is %s, and its topic is not known: %v", id, was.State, err)
		}
		is.TTL, was.TTL = 0, 0
		if err != nil || !reflect.DeepEqual(is, was) {
			m.Errorf("%s is\n%+v, %v; it was\n%+v", id, is, err, was)
		}
	}
	m.expectOrder()
}

// expectOrder checks that jobs that were ready in one partition, and still share one, have kept their order.
func (m *migrating) expectOrder() {
	m.Helper()
	for _, s := range m.now.Stores[:m.now.Layout.Partitions] {
		is := m.Strings("LRANGE", s.Keys().ReadyQueue("ready"), 0, -1)
		slices.Reverse(is)
		for from, were := range m.ready {
			mine := func(id string) bool { return slices.Contains(were, id) && m.now.Of(id) == s }
			want := filter(were, mine)
			if got := filter(is, mine); !slices.Equal(got, want) {
				m.Errorf("of what was ready in %s, %s has %q, want %q", from, s.Keys().Prefix(), got, want)
			}
		}
	}
}

func filter(ids []string, which func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !which(id) })
}

// expectNothingLeft checks that the old partitions contain only known topics and data of the migration, and that no job
// is in transit.
func (m *migrating) expectNothingLeft() {
	m.Helper()
	gone := map[string]bool{}
	for _, s := range m.now.Stores[m.now.Layout.Partitions:] {
		for _, name := range []string{"topics", "topics_due", "migration"} {
			gone[s.Keys().Prefix()+name] = true
		}
	}
	of := func(key string) bool {
		for _, s := range m.now.Stores[:m.now.Layout.Partitions] {
			rest, ours := strings.CutPrefix(key, s.Keys().Prefix())
			if ours && (s.Keys().Prefix() != store.DefaultPrefix || !strings.HasPrefix(rest, "{")) {
				return !strings.HasPrefix(rest, "set_aside")
			}
		}
		return gone[key] || key == layoutKey
	}
	for _, key := range m.Strings("KEYS", "*") {
		if !of(key) {
			m.Errorf("%s is left", key)
		}
	}
}

func (m *migrating) migrate(wantDone bool) (last Migrated) {
	m.Helper()
	done, err := m.now.Migrate(m.ctx, func(to Migrated) { last = to })
	if err != nil || done != wantDone {
		m.Errorf("done: %v, %v, want %v", done, err, wantDone)
	}
	return last
}

// elsewhere returns how many of these IDs belong to jobs that have to move.
func (m *migrating) elsewhere(ids []string) (n int) {
	for _, id := range ids {
		if m.now.OldOf(id) != nil {
			n++
		}
	}
	return n
}

// All data moves to its current partition, unchanged, from any number of partitions to any other. Reserved jobs stay
// until they are no longer reserved.
func TestMigrate(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		layouts := []Layout{{5, 3}, {2, 4}, {5, 1}, {1, 5}, {4, 2}, {3, 5}}
		if testing.Short() {
			layouts = layouts[:2]
		}
		for _, l := range layouts {
			t.Run(l.String(), func(t *testing.T) {
				m := newMigrating(t, b, l, 60)
				m.T = t
				ids, held := slices.Collect(maps.Keys(m.jobs)), slices.Collect(maps.Keys(m.held))
				for _, id := range m.ready[m.old.Stores[0].Keys().Prefix()] {
					if m.now.OldOf(id) != nil { // an entry without a job in its new partition
						m.do(t, "ZADD", m.now.Of(id).Keys().JobPool(), time.Now().Add(time.Hour).Unix(), id)
					}
				}
				moved := m.migrate(m.elsewhere(ids) == 0)
				want := Migrated{Adopted: store.Adopted{Stored: m.elsewhere(ids) - m.elsewhere(held)}, Reserved: m.elsewhere(held)}
				if moved.Left = 0; moved != want {
					t.Errorf("migrated %+v, want %+v", moved, want)
				}
				m.expectMoved(m.held)

				for id, held := range m.held {
					where := m.old.Of(id)
					errs, err := where.Retry([]store.Returned{{LeaseRef: held, Delay: time.Hour}}).Do(m.ctx)
					check(t, errors.Join(append(errs, err)...))
					m.jobs[id] = made2(t)(where.Get(m.ctx, id))
				}
				m.migrate(m.elsewhere(held) == 0)
				m.expectMoved(nil)
				if more := m.migrate(true); more.Stored != 0 {
					t.Errorf("migrated again: %+v", more)
				}
				m.expectNothingLeft()
				check(t, m.now.MigrationDone(m.ctx))
				if kept, want := b.layoutKept(), fmt.Sprintf("partitions %d", l.Partitions); kept != want {
					t.Errorf("Redis has kept %q, want %q", kept, want)
				}
			})
		}
	})
}

// The connection is cut at each command, before Redis gets the command or before the reply arrives. Jobs can be taken
// meanwhile. Another migration finds each job once.
func TestMigrateCuts(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t)
	cutter := redistest.StartCutter(t, server.Addr)
	cuts := 0
	step := 1
	if testing.Short() {
		step = 7
	}
	for n, was := 1, -1; was != cuts; n += step {
		was = cuts
		for _, answered := range []bool{false, true} {
			m := newMigrating(t, b, Layout{3, 2}, 24)
			through := (&redistest.Fixture{TB: t, Addr: cutter.Addr}).Pool()
			cutter.Arm(n, answered)
			_, err := Layout{3, 2}.Open(through, store.DefaultPrefix).Migrate(m.ctx, func(Migrated) {})
			if len(cutter.Commands()) < n {
				continue
			}
			cuts++
			name := fmt.Sprintf("cut at command %d, answered: %v: %v", n, answered, err)
			for _, s := range m.now.Stores[:3] { // jobs that have arrived may be taken before the rest arrives
				for _, job := range made(t, s.Pop(store.Wanted{Topics: []string{"ready"}, N: 3})).Jobs {
					if _, there := m.jobs[job.ID]; !there {
						t.Errorf("%s: %s is delivered twice", name, job.ID)
					}
					delete(m.jobs, job.ID)
					for from := range m.ready {
						m.ready[from] = filter(m.ready[from], func(id string) bool { return id != job.ID })
					}
				}
			}
			m.migrate(m.elsewhere(slices.Collect(maps.Keys(m.jobs))) == 0)
			m.expectMoved(m.held)
			left := map[string]string{}
			for _, s := range m.now.Stores {
				for _, id := range m.Strings("KEYS", s.Keys().Transit()+"*") {
					left[id] = s.Keys().Prefix()
				}
			}
			if len(left) > 0 || len(m.buckets()) != len(m.jobs) {
				t.Errorf("%s: in transit are %v, and there are %d jobs, want %d", name, left, len(m.buckets()), len(m.jobs))
			}
			if t.Failed() {
				t.Fatal(name)
			}
		}
	}
	t.Logf("%d cuts", cuts)
}

// buckets returns the buckets of all jobs and dead letters.
func (m *migrating) buckets() []string {
	return append(m.Strings("KEYS", "*job_bucket:*"), m.Strings("KEYS", "*dead_letter:*")...)
}
