package server

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// awaitBeat waits until the server has written a heartbeat and read those of the others.
func (s *Server) awaitBeat(t *testing.T) {
	t.Helper()
	until(t, "its entry", func() bool {
		s.heartbeat.mu.Lock()
		defer s.heartbeat.mu.Unlock()
		return s.heartbeat.told.ID != ""
	})
}

// serversNamed returns entries of servers with these IDs.
func serversNamed(ids ...string) (all []store.ServerState) {
	for _, id := range ids {
		all = append(all, store.ServerState{ID: id})
	}
	return all
}

// preferring returns the partitions that the server with this ID would move if the others run.
func preferring(id string, partitions int, others ...string) map[int]bool {
	s := serverOn(new(redis.Pool), partitions, Options{})
	s.heartbeat.begin("", time.Second, time.Now())
	s.heartbeat.state.ID = id
	s.prefer(serversNamed(others...))
	own := map[int]bool{}
	for _, m := range s.movers {
		own[m.number] = !m.standby.Load()
	}
	return own
}

// Each partition is preferred by one server. When a server leaves, the other servers keep their partitions.
func TestPrefer(t *testing.T) {
	t.Parallel()
	const partitions = 64
	ids := []string{"a:1:0000aaaa", "a:1:0000aaab", "b:7:12345678"}
	before := map[string]map[int]bool{
		ids[0]: preferring(ids[0], partitions, ids[1], ids[2]),
		ids[1]: preferring(ids[1], partitions, ids[0], ids[2]),
		ids[2]: preferring(ids[2], partitions, ids[0], ids[1]),
	}
	after := map[string]map[int]bool{
		ids[0]: preferring(ids[0], partitions, ids[1]),
		ids[1]: preferring(ids[1], partitions, ids[0]),
	}
	share := map[string]int{}
	for p := range partitions {
		owners := 0
		for id, own := range before {
			if own[p] {
				owners++
				share[id]++
			}
			if id != ids[2] && own[p] && !after[id][p] {
				t.Errorf("%s lost partition %d when another server went", id, p)
			}
		}
		if owners != 1 || after[ids[0]][p] == after[ids[1]][p] {
			t.Errorf("partition %d is preferred by %d servers of three, and by %v and %v of two", p, owners, after[ids[0]][p], after[ids[1]][p])
		}
	}
	for id, n := range share {
		if n < partitions/6 {
			t.Errorf("%s prefers %d of %d partitions", id, n, partitions)
		}
	}
	for p, own := range preferring(ids[0], partitions) {
		if !own {
			t.Errorf("nobody prefers partition %d, of one server", p)
		}
	}
}

// A server on standby plans each pass 50 ms later, also a pass that was planned before it learned of the other server.
// When that has gone, the pass is not delayed any more.
func TestStandbyIsLater(t *testing.T) {
	timer := &fakeTimer{}
	s := serverOn(&redis.Pool{}, 1, Options{})
	m := s.movers[0]
	m.loop.Store(&loop{timer: &wakeTimer{precise: timer}})
	s.heartbeat.state.ID = "this"
	other := serversNamed("other")
	if fleet.Mover(0, append(other, store.ServerState{ID: "this"})).ID != "other" {
		t.Fatal("this server is preferred")
	}
	due := time.Now().Add(time.Hour)
	m.passBy(due)
	for _, c := range []struct {
		others []store.ServerState
		want   time.Time
	}{{nil, due}, {other, due.Add(takeOverAfter)}, {nil, due}} {
		s.prefer(c.others)
		if got := m.passAt(); !got.Equal(c.want) {
			t.Errorf("with %d others: the pass is at %v, want %v", len(c.others), got, c.want)
		}
	}
	s.prefer(other)
	m.awake()
	timer.set = 0
	s.prefer(nil)
	if timer.set != 0 {
		t.Errorf("without a plan the timer is set to %v", timer.set)
	}
	s.prefer(other)
	m.passBy(due)
	m.loop.Load().timer.at = time.Time{} // asleep until later
	s.prefer(nil)
	if until := time.Until(due); timer.set < until || timer.set > until+takeOverAfter/2 {
		t.Errorf("the timer is set to %v, want %v", timer.set, until)
	}
}

// On standby a pass leaves a backlog to the other server once that has moved some of the jobs first, and the next pass
// checks again whether it goes on. Without a standby it goes on itself.
func TestStandbyLeavesABacklog(t *testing.T) {
	t.Parallel()
	const jobs = 3 * minBatch
	for _, standby := range []bool{true, false} {
		w := newWorld(t)
		w.many(jobs, 1)
		w.mover().batch = batchSize{budget: 1, current: minBatch}
		w.mover().standby.Store(standby)
		w.onLook(func(n int) {
			if n == 1 {
				w.Do("ZREM", prefix+"job_pool", "job000000")
			}
		})
		r := w.pass()
		switch {
		case !standby && r.Moved != jobs-1:
			t.Errorf("it moved %d jobs, want %d", r.Moved, jobs-1)
		case standby && (r.Moved != minBatch-1 || r.Next.IsZero() || time.Until(r.Next) > 0):
			t.Errorf("on standby it moved %d jobs, want %d, and goes on at %v", r.Moved, minBatch-1, r.Next)
		}
	}
}

// A server leaves jobs for 50 ms to another server that has a heartbeat but does nothing, and then moves them. This holds
// for existing, announced and overdue jobs, with one partition and with several.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 5} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := fleetOn(w.pool(), partitions)
			conn := w.Pool().Get()
			defer conn.Close()
			var late atomic.Int64 // lateness of the last job when it was logged, in µs
			var mu sync.Mutex
			due := map[string]float64{}
			w.log.hears = func(line string) {
				now, _ := redis.Float64s(conn.Do("TIME"))
				mu.Lock()
				defer mu.Unlock()
				for _, id := range idsOf(line) {
					late.Store(int64((now[0] + now[1]/1e6 - due[id]) * 1e6))
				}
			}
			w.server = serverOn(w.pool(), partitions, Options{Interval: time.Hour, Logger: w.log.logger()})
			w.run()
			w.server.awaitBeat(t)
			for _, s := range p.Stores {
				until(t, "it listens", func() bool { return w.Do("PUBSUB", "NUMSUB", s.Keys().FirstDue()).([]any)[1] == int64(1) })
			}
			var phantoms []store.ServerState // servers that together prefer all partitions
			for n := 0; len(phantoms) < partitions; n++ {
				phantom := store.ServerState{ID: fmt.Sprint("phantom", n)}
				if fleet.Mover(len(phantoms), []store.ServerState{phantom, {ID: w.server.heartbeat.state.ID}}).ID == phantom.ID {
					phantoms = append(phantoms, phantom)
				}
			}
			moved := 0
			for n, delay := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond} {
				w.server.prefer(phantoms)
				id := fmt.Sprint("job", n)
				mu.Lock()
				due[id] = w.Clock() + delay.Seconds() // or a little later
				mu.Unlock()
				w.pushIn(p, id, "t", delay)
				moved++
				w.log.awaitMoved(t, moved)
				if d := time.Duration(late.Load()) * time.Microsecond; d < takeOverAfter/2 { // our clock differs from Redis's
					t.Errorf("job %d was moved %v after it was due", n, d)
				}
			}

			// The others have gone, and the server knows when the next job is due. Then it learns of them again.
			w.server.prefer(nil)
			mu.Lock()
			due["next{1}"] = w.Clock() + 2
			mu.Unlock()
			w.pushIn(p, "next{1}", "t", 2*time.Second)
			w.pushIn(p, "first{1}", "t", time.Millisecond)
			w.log.awaitMoved(t, moved+1)
			w.server.prefer(phantoms)
			waits := w.Do("ZCARD", p.Of("next{1}").Keys().JobPool()) == int64(1) // false if this machine is slow
			w.log.awaitMoved(t, moved+2)
			if d := time.Duration(late.Load()) * time.Microsecond; waits && d < takeOverAfter/2 {
				t.Errorf("it did not leave a job that it was about to move: %v", d)
			}
		})
	}
}

// Another server with a heartbeat was killed after an original server had moved a schedule. A server on standby puts
// the schedule back and fires it.
func TestStandbyRepairsSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.schedule(aSchedule("a", "@every 1h"), time.Hour)
	w.run()
	w.server.awaitBeat(t)
	var killed store.ServerState // the killed server should move the partition
	for n := 0; killed.ID == "" || fleet.Mover(0, []store.ServerState{killed, {ID: w.server.heartbeat.state.ID}}).ID != killed.ID; n++ {
		killed = store.ServerState{ID: fmt.Sprint("killed", n), Interval: time.Second}
	}
	says := func() {
		_, err := w.store().Heartbeat(killed, 1000, -1).Do(t.Context())
		check(t, err)
	}
	says()
	w.server.prefer([]store.ServerState{killed})
	id := store.ScheduleID("a")
	first := time.Now().Add(-time.Minute).Truncate(time.Millisecond)
	w.Do("HSET", prefix+"job_bucket:"+id, "next", first.UnixMilli())
	w.Do("ZREM", prefix+"job_pool", id)
	w.Do("LPUSH", prefix+"ready_queue:"+store.ScheduleTopic, id)
	until(t, "it is fired", func() bool { says(); return len(w.Queue("t")) > 0 })
	w.expectReady("t", store.OccurrenceID("a", first))
	if !w.mover().standby.Load() {
		t.Error("the other server was forgotten meanwhile, so this shows nothing")
	}
}

// A pass that finds a schedule moved by an original server puts it back and fires it.
func TestPassFiresWhatItRepairs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.schedule(aSchedule("a", "@every 1h"), -time.Second)
	w.Do("ZREM", prefix+"job_pool", store.ScheduleID("a"))
	w.Do("LPUSH", prefix+"ready_queue:"+store.ScheduleTopic, store.ScheduleID("a"))
	check(t, w.server.Pass(t.Context()))
	w.expectReady("t", store.OccurrenceID("a", first))
	w.expectReady(store.ScheduleTopic)
}

// TestSecondServerIdles makes two servers share the work. The server that prefers a partition moves its jobs; the other
// one only polls first entries. Each learns of the other from its heartbeat.
func TestSecondServerIdles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := fleetOn(w.pool(), 5)
	both := []*Server{}
	for range 2 {
		w.server = serverOn(w.pool(), 5, Options{Interval: time.Second, Logger: w.log.logger()})
		both = append(both, w.server)
		w.run()
	}
	until(t, "two entries", func() bool { return len(w.servers()) == 2 })
	for i, s := range both { // each server learns of the other within 10 s
		s.awaitBeat(t)
		s.prefer(serversNamed(both[1-i].heartbeat.state.ID))
	}
	owners := map[int]int{}
	for _, s := range both {
		for _, m := range s.movers {
			if !m.standby.Load() {
				owners[m.number]++
			}
		}
	}
	for n := range p.Stores {
		if owners[n] != 1 {
			t.Errorf("partition %d is that of %d servers", n, owners[n])
		}
	}
	const jobs = 500
	for i := range jobs {
		w.pushIn(p, strconv.Itoa(i), "t", time.Duration(1+i%50)*time.Millisecond)
	}
	w.log.awaitMoved(t, jobs)
	ready := map[string]int{}
	for _, s := range p.Stores {
		for _, id := range w.Strings("LRANGE", s.Keys().ReadyQueue("t"), 0, -1) {
			ready[id]++
		}
	}
	for i := range jobs {
		if ready[strconv.Itoa(i)] != 1 {
			t.Errorf("job %d is ready %d times", i, ready[strconv.Itoa(i)])
		}
	}
	w.log.expectErrors(t)
}

// A server that was alone learns of another one with its next heartbeat, and from then on leaves it a share of the
// partitions.
func TestNewcomerIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := time.Now()
	w.server.heartbeat.begin("", time.Second, began)
	w.server.writeHeartbeat(t.Context(), began)
	w.server.writeHeartbeat(t.Context(), began.Add(renewEvery))
	if len(w.server.heartbeat.others) > 0 {
		t.Fatalf("it is not alone: %+v", w.server.heartbeat.others)
	}
	w.Do("CONFIG", "RESETSTAT")
	w.server.writeHeartbeat(t.Context(), began.Add(2*renewEvery))
	if n, most := w.Calls()-w.Calls("config|resetstat"), 10; n > most || w.Calls("hrandfield") > 0 {
		t.Errorf("a heartbeat of one that is alone takes %d commands, want %d", n, most)
	}
	second := serverOn(w.pool(), 1, Options{})
	second.heartbeat.begin("", time.Second, began)
	second.writeHeartbeat(t.Context(), began)
	w.server.writeHeartbeat(t.Context(), began.Add(3*renewEvery))
	for _, s := range []*Server{w.server, second} {
		if len(s.heartbeat.others) != 1 {
			t.Errorf("a server knows of %d others", len(s.heartbeat.others))
		}
	}
	if a, b := w.server.movers[0].standby.Load(), second.movers[0].standby.Load(); a == b {
		t.Errorf("both leave the jobs to the other one, or neither: %v", a)
	}
}

// TestManyServersOfPartitions makes servers come and go while they work off a backlog of five partitions together. One
// of them is an old server that knows of no others.
func TestManyServersOfPartitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(5)
	const jobs, topics = 8000, 3
	w.manyIn(p.Stores, jobs, topics)
	start := func() (stop func()) {
		w.server = serverOn(w.pool(), 5, Options{Interval: 10 * time.Millisecond, Logger: w.log.logger()})
		for _, m := range w.server.movers {
			m.batch = batchSize{budget: 1, current: minBatch}
		}
		return w.run()
	}
	start()
	for n := range 5 {
		stop := start()
		w.log.awaitMoved(t, (n+1)*jobs/2)
		stop()
	}
	start()
	w.log.awaitMoved(t, 5*jobs)
	w.expectManyMovedIn(p.Stores, jobs, topics)
	w.log.expectErrors(t)
}

// barrier makes its parties wait until all of them have arrived.
type barrier struct {
	mu      sync.Mutex
	parties int
	here    int
	open    chan struct{}
	rounds  int // rounds with at least two parties
}

func newBarrier(parties int) *barrier {
	return &barrier{parties: parties, open: make(chan struct{})}
}

func (b *barrier) wait() {
	b.mu.Lock()
	b.here++
	open := b.open
	b.openIfComplete()
	b.mu.Unlock()
	<-open
}

func (b *barrier) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parties--
	b.openIfComplete()
}

func (b *barrier) openIfComplete() {
	if b.here == 0 || b.here < b.parties {
		return
	}
	if b.here > 1 {
		b.rounds++
	}
	b.here = 0
	close(b.open)
	b.open = make(chan struct{})
}

// TestManyServers makes several servers read the same due jobs before any of them moves one, batch after batch. Each
// job enters its queue once, in order.
func TestManyServers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	jobs, topics := 100000, 5
	if testing.Short() {
		jobs = 30000
	}
	for _, servers := range []int{2, 4} {
		t.Run(fmt.Sprint(servers), func(t *testing.T) {
			w.TB = t
			w.many(jobs, topics)
			together := newBarrier(servers)
			var done sync.WaitGroup
			results := make([]result, servers)
			for n := range servers {
				s := serverOn(w.pool(), 1, Options{})
				s.movers[0].batch = batchSize{budget: 1, current: 1000} // the first reads overlap completely, later reads are smaller
				s.test.beforeMove = together.wait
				done.Go(func() {
					defer together.leave()
					var err error
					if results[n], err = passOf(s); err != nil {
						t.Error(err)
					}
				})
			}
			done.Wait()
			moved := 0
			for _, r := range results {
				moved += r.Moved
			}
			if moved != jobs {
				t.Errorf("the servers moved %d jobs together, want %d", moved, jobs)
			}
			if together.rounds < jobs/1000 {
				t.Errorf("only %d rounds of several servers", together.rounds)
			}
			if n := w.Do("ZCARD", prefix+"job_pool"); n != int64(0) {
				t.Errorf("%d jobs still wait", n)
			}
			w.expectManyMoved(jobs, topics)
		})
	}
}

// TestManyServersFree is the same with Run, without a barrier.
func TestManyServersFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const jobs, topics, servers = 30000, 3, 4
	w.many(jobs, topics)
	for range servers {
		w.server = serverOn(w.pool(), 1, w.options())
		w.run()
	}
	w.log.awaitMoved(t, jobs)
	w.expectManyMoved(jobs, topics)
}
