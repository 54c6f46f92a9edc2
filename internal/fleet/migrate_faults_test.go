package fleet

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A migration that lacks the permission for one of the commands leaves each job visible to all programs. It loses no
// job that another migration has put in transit. The next migration moves the jobs.
func TestMigrateWithoutPermission(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	b, _ := onRedis(t)
	b.SetUser("~* &* +@all")
	const commands = "evalsha time exists type zscan zscore zadd zrem zcard zcount zmscore hlen hexists hget hmget hgetall hkeys hstrlen hset hdel pttl pexpire rename del lpush llen lrange ltrim rpush"
	for command := range strings.FieldsSeq(commands) {
		t.Run("without "+command, func(t *testing.T) {
			m := newMigrating(t, b, Layout{3, 2}, 48)
			m.T = t
			m.olderLetters()
			b.do(t, "ACL", "SETUSER", "u", "+@all", "-"+command)
			_, err := Layout{3, 2}.Open(b.UserPool(), store.DefaultPrefix).Migrate(m.ctx, func(Migrated) {})
			if seen := m.seen(); len(seen) != len(m.jobs) {
				t.Errorf("after %v all see %d jobs, want %d", err, len(seen), len(m.jobs))
			}
			for id, was := range m.jobs {
				if was.State == "dead" && m.now.OldOf(id) != nil {
					made(t, m.old.Of(id).PutInTransit([]string{id}, false)) // one job in each partition
				}
			}
			Layout{3, 2}.Open(b.UserPool(), store.DefaultPrefix).FinishTransits(m.ctx)
			m.migrate(m.elsewhere(slices.Collect(maps.Keys(m.jobs))) == 0)
			m.expectMoved(m.held)
		})
	}
}

// olderLetters puts older dead letters of the same IDs into each new partition.
func (m *migrating) olderLetters() {
	for id, was := range m.jobs {
		if s := m.now.Of(id); was.State == "dead" && m.now.OldOf(id) != nil {
			m.Do("HSET", s.Keys().DeadLetter(id), "topic", "older", "body", "b", "died", 1)
			m.Do("ZADD", s.Keys().DeadLetters("older"), 1, id)
			m.Do("ZADD", s.Keys().DeadTopics(), 1, "older")
		}
	}
}

// seen returns the IDs of all jobs and dead letters, wherever they are, except those in transit.
func (m *migrating) seen() map[string]bool {
	ids := map[string]bool{}
	for _, key := range m.buckets() {
		_, id, _ := strings.Cut(strings.Replace(key, "dead_letter:", "job_bucket:", 1), "job_bucket:")
		ids[id] = true
	}
	return ids
}

// A finished migration leaves nothing behind, not even a job that was ready when the pool was read and is reserved when
// its queue is read.
func TestMigrateIsSure(t *testing.T) {
	t.Parallel()
	b, server := onRedis(t)
	for n := 1; ; n++ {
		m := newMigrating(t, b, Layout{3, 1}, 0)
		m.store("a", "t", 0)
		m.Do("HSET", "delayer:{0}:partitions", "partitions", 3, "before", 1)
		writes := 0
		var held []store.Lease
		through := server.Pool(redis.DialNetDial(func(network, addr string) (net.Conn, error) {
			conn, err := net.Dial(network, addr)
			return &hooked{conn, func() {
				if writes++; writes == n {
					held = made(t, m.old.Stores[0].Reserve(store.Wanted{Topics: []string{"t"}, N: 1}, store.Reservation{Lease: time.Hour})).Leases
				}
			}}, err
		}))
		done, err := Layout{3, 1}.Open(through, store.DefaultPrefix).Migrate(m.ctx, func(Migrated) {})
		check(t, err)
		if writes < n {
			break
		}
		if done && len(held) > 0 {
			t.Errorf("done, but the job is reserved, since before command %d", n)
		}
	}
}

// hooked is a connection that calls a function before each write.
type hooked struct {
	net.Conn
	before func()
}

func (h *hooked) Write(b []byte) (int, error) {
	h.before()
	return h.Conn.Write(b)
}

// A failover may set back a partition's serial numbers while the new master's clock is behind. No job is lost, because
// the other partitions have higher numbers.
func TestMigrateSerialSetBack(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, b *backend) {
		m := newMigrating(t, b, Layout{3, 2}, 60)
		for i, from := range m.old.Stores {
			for k, to := range m.now.Stores[:3] {
				m.Do("HSET", to.Keys().Migration(), "from "+from.Keys().Prefix(), fmt.Sprintf("%d", (4+i+k)*1e15))
			}
		}
		m.migrate(false)
		m.expectMoved(m.held)
		m.migrate(false) // with the new numbers
		m.expectMoved(m.held)
	})
}

// At each command, Redis is full, or is killed and restarted with its AOF. No job is lost, and jobs that were in
// transit before Redis was full are stored.
func TestMigrateFullAndRestarted(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	b, server := onRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	for _, what := range []struct {
		name     string
		do, undo func()
		step     int
		seen     bool // true if all jobs were seen meanwhile
	}{
		{"full", func() { b.do(t, "CONFIG", "SET", "maxmemory", 1) }, func() { b.do(t, "CONFIG", "SET", "maxmemory", 0) }, 1, true},
		{"restarted", server.Kill, server.Restart, 5, false},
	} {
		for n := 1; ; n += what.step {
			m := newMigrating(t, b, Layout{3, 2}, 24)
			writes := 0
			through := server.Pool(redis.DialNetDial(func(network, addr string) (net.Conn, error) {
				conn, err := net.Dial(network, addr)
				return &hooked{conn, func() {
					if writes++; writes == n {
						what.do()
					}
				}}, err
			}))
			_, err := Layout{3, 2}.Open(through, store.DefaultPrefix).Migrate(m.ctx, func(Migrated) {})
			if writes < n {
				break
			}
			what.undo()
			if seen := m.seen(); what.seen && len(seen) != len(m.jobs) {
				t.Errorf("%s at command %d: %v; all see %d jobs, want %d", what.name, n, err, len(seen), len(m.jobs))
			}
			m.migrate(m.elsewhere(slices.Collect(maps.Keys(m.jobs))) == 0)
			m.expectMoved(m.held)
			if t.Failed() {
				t.Fatal(what.name, n)
			}
		}
	}
}

// A partition with a broken pool keeps the migration from starting: no job is put in transit that could not be stored.
func TestMigrateToBrokenPool(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	m := newMigrating(t, b, Layout{3, 2}, 24)
	pool := m.now.Stores[2].Keys().JobPool()
	m.Do("SET", pool, "text")
	if _, err := m.now.Migrate(m.ctx, func(Migrated) {}); store.KindOf(err) != store.WrongType || len(m.seen()) != len(m.jobs) {
		t.Errorf("%v; all see %d jobs, want %d", err, len(m.seen()), len(m.jobs))
	}
	m.Do("DEL", pool)
	m.migrate(false)
	m.expectMoved(m.held)
}
