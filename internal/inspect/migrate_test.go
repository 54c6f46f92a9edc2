package inspect

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var grown = fleet.Layout{Partitions: 3, Previous: 1}

// seedAll stores jobs in all states, in one partition.
func (f *fixture) seedAll() (held *client.Delivery) {
	f.TB.Helper()
	f.pushMany("t", "w", 20, time.Hour, time.Second)
	f.push("t", "held", 0)
	list, err := f.client.ReserveBatch(f.ctx, "t", 1, time.Hour)
	redistest.Check(f.TB, err)
	for i := range 20 {
		f.push("t", fmt.Sprint("r", i), 0)
		f.letter("t", fmt.Sprint("d", i), "r", "e", int64(1000+i))
	}
	return list[0]
}

// A user with the migrator's permissions migrates everything and finds jobs by ID.
func TestMigrateRights(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	held := f.seedAll()
	f.Do("ACL", redis.Args{"SETUSER", "u", "on", ">p"}.AddFlat(strings.Fields(redistest.Rights(t, "migrator")))...)
	p := grown.Open(f.UserPool(), store.DefaultPrefix)
	for _, id := range []string{"w1", "r1", "d1", "held", "none"} {
		_, err := p.MigrateJobs(t.Context(), []string{id}, true)
		redistest.Check(t, err)
	}
	sum, err := New(f.UserPool(), "", grown).Migrate(t.Context(), false, func(Migration) {})
	if err != nil || sum.Stored != 57 {
		t.Errorf("migrated %+v, %v", sum, err)
	}
	if denied := f.Do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("Redis has refused %q", denied)
	}
	if err := held.Ack(t.Context()); err == nil {
		t.Error("a job that was brought is held still")
	}
}

// A migration waits for reserved jobs and continues after its connections were cut.
func TestMigrateSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	f, server := onRedis(t)
	held := f.seedAll()
	cutter := redistest.StartCutter(t, server.Addr)
	through := (&redistest.Fixture{TB: t, Addr: cutter.Addr}).Pool()
	cutter.Arm(20, true)
	reserved := make(chan struct{})
	told := false
	go func() {
		<-reserved
		redistest.Check(t, held.Ack(t.Context()))
	}()
	sum, err := New(through, "", grown).Migrate(t.Context(), true, func(m Migration) {
		if m.Reserved > 0 && !told {
			told = true
			close(reserved)
		}
	})
	if err != nil || len(cutter.Commands()) < 20 || !told {
		t.Errorf("migrated %+v, %v; %d commands, told of a reserved job: %v", sum, err, len(cutter.Commands()), told)
	}
	if left := f.Strings("KEYS", "delayer:job_*"); len(left) > 0 {
		t.Errorf("left are %q", left)
	}
	if jobs := len(f.Strings("KEYS", "*job_bucket:*")) + len(f.Strings("KEYS", "*dead_letter:*")); jobs != 60 {
		t.Errorf("there are %d jobs, want 60", jobs)
	}
}

// A broken queue is reported and stops no other move. An unreachable Redis is an error at once.
func TestMigrateBroken(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.seedAll()
	f.push("broken", "b", 0)
	f.Do("SET", "delayer:ready_queue:broken", "text")
	_, err := New(f.Pool(), "", grown).Migrate(t.Context(), true, func(Migration) {})
	if err == nil || !strings.Contains(err.Error(), `"delayer:ready_queue:broken": WRONGTYPE`) {
		t.Errorf("error %v", err)
	}
	if left := f.Strings("KEYS", "delayer:job_bucket:*"); len(left) != 2 { // the held job and b
		t.Errorf("left are %q", left)
	}
	away := (&redistest.Fixture{TB: t, Addr: "127.0.0.1:1"}).Pool()
	if _, err := New(away, "", grown).Migrate(t.Context(), true, func(Migration) {}); err == nil {
		t.Error("no error without Redis")
	}
}
