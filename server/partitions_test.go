package server

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// partitioned divides the world's jobs into n partitions, and gives it a server for them.
func (w *world) partitioned(n int) *fleet.Fleet {
	w.TB.Helper()
	w.server = serverOn(w.pool(), n, Options{Interval: 10 * time.Millisecond, Logger: w.log.logger()})
	return fleetOn(w.pool(), n)
}

// pushIn stores a job in its partition as our client does.
func (w *world) pushIn(p *fleet.Fleet, id, topic string, delay time.Duration) {
	w.TB.Helper()
	check(w.TB, pushTo(w.TB.Context(), p.Of(id), store.Job{ID: id, Topic: topic, Body: "b"}, store.Due{After: delay}))
}

// TestPartitions checks that Pass and Run each move the jobs of all partitions. Run gets announcements of new jobs in
// any partition over one connection, even while another partition has a backlog.
func TestPartitions(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 5, 16} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.partitioned(n)
			const jobs, topics = 2000, 3
			w.manyIn(p.Stores, jobs, topics)
			check(t, w.server.Pass(t.Context()))
			w.expectManyMovedIn(p.Stores, jobs, topics)

			w.server = serverOn(w.pool(), n, Options{Interval: time.Hour, Logger: w.log.logger()})
			stop := w.run()
			for _, s := range p.Stores {
				until(t, "it listens", func() bool { return w.Do("PUBSUB", "NUMSUB", s.Keys().FirstDue()).([]any)[1] == int64(1) })
			}
			if list := listeners(t, w.Server); strings.Count(list, " ") != 1 {
				t.Errorf("connections that listen: %s", list)
			}
			const more = 50
			for i := range more {
				w.pushIn(p, fmt.Sprint("more", i), "more", time.Duration(i+1)*time.Millisecond)
			}
			w.log.awaitMoved(t, n*jobs+more)
			w.awaitServer(t, "one entry", anything)
			stop()
			w.log.expectErrors(t)
		})
	}
}

// TestPartitionsTakeTurns creates a long backlog in one partition, with small batches: the jobs of the other partition
// do not wait for its end.
func TestPartitionsTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(2)
	const jobs = 20000
	w.manyIn(p.Stores[:1], jobs, 1)
	w.manyIn(p.Stores[1:], 1, 1)
	w.server.movers[0].batch = batchSize{budget: 1, current: minBatch}
	behind := int64(-1)
	conn := w.Pool().Get()
	defer conn.Close()
	w.log.hears = func(line string) {
		if strings.HasSuffix(line, "Partition: 1") {
			behind, _ = redis.Int64(conn.Do("ZCARD", p.Stores[0].Keys().JobPool()))
		}
	}
	stop := w.run()
	w.log.awaitMoved(t, jobs+1)
	stop()
	if behind < jobs/2 {
		t.Errorf("the other partition's job was moved when only %d were left", behind)
	}
}

// TestBrokenPartition breaks one partition with a key of another type, and another one with missing permissions. The
// other partitions' jobs are moved, and the log, the server's entry, Pass and Check name the broken partition.
func TestBrokenPartition(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		breaks, heals func(w *world)
		want          string
	}{
		"another type": {
			func(w *world) { w.Do("SET", "delayer:{1}:job_pool", "text") },
			func(w *world) { w.Do("DEL", "delayer:{1}:job_pool") },
			"WRONGTYPE",
		},
		"no rights": {
			func(w *world) { w.Do("ACL", "SETUSER", "u", "resetkeys", "~delayer:{0}:*", "~delayer:{2}:*") },
			func(w *world) { w.Do("ACL", "SETUSER", "u", "~delayer:*") },
			"NOPERM",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.user(daemonRights)
			p := fleetOn(w.pool(), 3)
			as := w.poolWith(3*time.Second, redis.DialUsername("u"), redis.DialPassword("p"))
			w.server = serverOn(as, 3, Options{Interval: 10 * time.Millisecond, Logger: w.log.logger()})
			c.breaks(w)
			for _, err := range []error{w.server.Pass(t.Context()), w.server.Check(t.Context())} {
				if err == nil || !strings.Contains(err.Error(), "partition 1: ") || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error %v, want that of partition 1, %s", err, c.want)
				}
			}
			stop := w.run()
			w.log.awaitError(t, outageLine)
			w.awaitServer(t, "its error", func(s store.ServerState) bool { return strings.Contains(s.Error, "partition 1: ") })
			for _, i := range []int{0, 2} {
				check(t, pushTo(t.Context(), p.Stores[i], store.Job{ID: "a", Topic: "t", Body: "b"}, store.Due{After: 20 * time.Millisecond}))
			}
			w.log.awaitMoved(t, 2)
			c.heals(w)
			w.log.awaitInfo(t, "over after")
			check(t, pushTo(t.Context(), p.Stores[1], store.Job{ID: "a", Topic: "t", Body: "b"}, store.Due{After: 20 * time.Millisecond}))
			w.log.awaitMoved(t, 3)
			w.awaitServer(t, "its recovery", func(s store.ServerState) bool { return s.Error == "" && s.Moved == 3 })
			stop()
			_, lines := w.log.lines()
			for _, line := range lines {
				if !strings.HasSuffix(line, ", Partition: 1") {
					t.Errorf("logged %q", line)
				}
			}
		})
	}
}

// If all partitions are unreachable, the log reports that once.
func TestPartitionsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "--appendonly", "yes", "--appendfsync", "always")
	p := w.partitioned(5)
	stop := w.run()
	w.awaitServer(t, "server", anything)
	w.Kill()
	w.log.awaitError(t, outageLine)
	w.awaitDials(20)
	w.Restart()
	w.log.awaitInfo(t, "over after")
	for i := range 20 {
		w.pushIn(p, fmt.Sprint(i), "t", 0)
		w.pushIn(p, fmt.Sprint("later", i), "t", 30*time.Millisecond)
	}
	until(t, "all are moved", func() bool {
		info, _ := w.log.lines()
		moved := 0
		for _, line := range info {
			moved += strings.Count(line, "later")
		}
		return moved == 20
	})
	stop()
	w.log.expectErrorsWith(t, outageLine)
}

// While nothing happens, a server that gets announcements polls a tenth of its partitions in each interval, and checks
// all of them for pauses with one command. On a busy machine it may miss that it gets announcements, or may poll late
// and find due jobs. So the test counts commands per interval, and the cheapest of several rounds counts.
func TestIdlePartitionsCostLittle(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	const interval, rounds = 20 * time.Millisecond, 5
	cheapest := func(partitions int) float64 {
		w := newWorld(t)
		passes := newCounter()
		w.server = serverOn(w.pool(), partitions, Options{Interval: interval, Hooks: passes.hooks()})
		w.run()
		awaitPasses := func(n int) {
			until(t, "passes", func() bool { return passes.passesSoFar() >= n })
		}
		awaitPasses(2*partitions + 10) // the server runs
		least := math.Inf(1)
		for range rounds {
			w.Do("CONFIG", "RESETSTAT")
			began := time.Now()
			awaitPasses(passes.passesSoFar() + max(20, 2*partitions))
			intervals := time.Since(began)/interval + 1
			least = min(least, float64(commandsServed(t, w))/float64(intervals))
		}
		return least
	}
	// The limits allow passes of 1, 1.6 and 6.4 partitions, an EXISTS for all of them, and the commands of heartbeats. A pass is
	// a script of five commands, or of seven before Redis 7.4, where it reads TIME twice more since scripts have no os.clock.
	for partitions, most := range map[int]float64{1: 8, 16: 13, 64: 48} {
		if commands := cheapest(partitions); commands > most {
			t.Errorf("%.1f commands in each interval with %d partitions, want %v at most", commands, partitions, most)
		}
	}
}

// commandsServed returns how many commands Redis has executed since CONFIG RESETSTAT.
func commandsServed(t *testing.T, w *world) (n int) {
	t.Helper()
	for _, stat := range strings.Fields(string(w.Do("INFO", "commandstats").([]byte))) {
		if _, calls, ok := strings.Cut(stat, ":calls="); ok && !strings.HasPrefix(stat, "cmdstat_config") {
			calls, _, _ = strings.Cut(calls, ",")
			count, err := strconv.Atoi(calls)
			check(t, err)
			n += count
		}
	}
	return n
}

// Each partition is polled within lastTurn intervals, about the same number in each interval. While the server gets no
// announcements, all are polled in each interval.
func TestTurns(t *testing.T) {
	for _, partitions := range []int{1, 2, 5, 10, 16, 64} {
		s := serverOn(&redis.Pool{}, partitions, Options{Interval: time.Hour})
		began := time.Now()
		l := &loop{began: began}
		turns := min(partitions, lastTurn)
		asked := map[time.Duration]int{}
		for _, m := range s.movers {
			m.loop.Store(l)
			if partitions > 1 {
				m.missesPushes.Store(true)
				if at := m.nextPass(began, time.Time{}, nil); at != began.Add(polledSleep) {
					t.Errorf("%d partitions, without pushes: the next turn is %v later", partitions, at.Sub(began))
				}
				m.missesPushes.Store(false)
			}
			first := m.turnAfter(began)
			for _, since := range []time.Duration{0, time.Millisecond, 3 * polledSleep, time.Hour} {
				at := m.turnAfter(began.Add(since)).Sub(began)
				if at <= since || at > since+time.Duration(turns)*polledSleep || (at-first.Sub(began))%(time.Duration(turns)*polledSleep) != 0 {
					t.Errorf("%d partitions: the turn after %v is at %v, the first at %v", partitions, since, at, first.Sub(began))
				}
			}
			asked[first.Sub(began)]++
		}
		for at, movers := range asked {
			if most := (partitions + turns - 1) / turns; movers > most || len(asked) != turns {
				t.Errorf("%d partitions: %d in the turn at %v, of %d turns", partitions, movers, at, len(asked))
			}
		}
	}
}

// Jobs that no push announces are found in each partition, and announced jobs are moved as well.
func TestTurnsMissNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(16)
	w.run()
	until(t, "it listens", func() bool { return len(w.Strings("PUBSUB", "CHANNELS")) == 16 })
	for i, s := range p.Stores { // as an old client does
		id := fmt.Sprint("unheard", i)
		w.Do("HSET", s.Keys().JobBucket(id), "topic", "t", "body", "b")
		w.Do("ZADD", s.Keys().JobPool(), 1, id)
	}
	w.log.awaitMoved(t, len(p.Stores))
	for i := range 50 {
		w.pushIn(p, fmt.Sprint("heard", i), "t", time.Millisecond)
	}
	w.log.awaitMoved(t, len(p.Stores)+50)
	w.log.expectErrors(t)
}

// Partition 0 has the data that exists once: the server's entry, with the jobs and passes of all partitions, and the
// last hour, with the acks of all of them.
func TestWhatCountsOnceIsCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.partitioned(3)
	for i, s := range p.Stores {
		w.Do("SET", s.Keys().Acked(), 1<<i)
		check(t, pushTo(t.Context(), s, store.Job{ID: "a", Topic: "t", Body: "b"}, store.Due{After: time.Millisecond}))
	}
	w.run()
	s := w.awaitServer(t, "all jobs", func(s store.ServerState) bool { return s.Moved == 3 })
	if s.Lateness.Jobs() != 3 || s.Passes < 3 {
		t.Errorf("entry %+v", s)
	}
	if hour := w.Strings("HVALS", p.Stores[0].Keys().History()); len(hour) == 0 || strings.Fields(hour[0])[1] != "7" {
		t.Errorf("the last hour is %q, want that 7 were acknowledged", hour)
	}
	for _, other := range p.Stores[1:] {
		if n := w.Do("EXISTS", other.Keys().Servers(), other.Keys().History()); n != int64(0) {
			t.Errorf("%s or %s is there, too", other.Keys().Servers(), other.Keys().History())
		}
	}
}
