package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/logger"
)

// A failure is logged once, and repaired by a retry. If the file has no schedules, missing permission to read them is not logged; a
// reload may bring some.
func TestSchedulesThatAreRefused(t *testing.T) {
	t.Parallel()
	good, refused := daily("daily"), []string{"it is tried again", "have changed: daily"}
	db := redistest.Start(t)
	for name, test := range map[string]struct {
		rights string
		kept   []config.Schedule // stored by an earlier start
		file   []config.Schedule
		reload []config.Schedule
	}{
		"none, then one":         {"+time", nil, nil, []config.Schedule{good}},
		"one":                    {"+time", nil, []config.Schedule{good}, nil},
		"one is left, unremoved": {"+@all -zrem", []config.Schedule{good}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			db.Do("FLUSHALL")
			before := &fileSchedules{jobs: clienttest.Jobs(client.UsePool(db.Pool(), 1), "")}
			for _, s := range test.kept {
				_, err := before.put(t.Context(), scheduleOfFile(s), (*store.Store).PutSchedule)
				redistest.Check(t, err)
			}
			db.Do("ACL", "SETUSER", "daemon", "reset", "on", ">secret", "~*", "&*", "+eval", "+evalsha", "+script|load")
			for right := range strings.FieldsSeq(test.rights) {
				db.Do("ACL", "SETUSER", "daemon", right)
			}
			k := newKeeper(t, client.PoolOptions{Addr: db.Addr, Username: "daemon", Password: "secret"}, test.file...)
			k.schedulesEvery = 20 * time.Millisecond
			k.start(t)
			if test.reload != nil {
				k.newSchedules <- test.reload
			}
			for _, want := range refused {
				k.expect(t, want)
				db.Do("ACL", "SETUSER", "daemon", "+@all")
			}
			k.stop()
			k.log.Close()
			for len(k.told) > 0 {
				t.Errorf("then told %q", <-k.told)
			}
		})
	}
}

// console receives the lines of a log.
type console chan string

func (c console) Write(line []byte) (int, error) {
	c <- string(line)
	return len(line), nil
}

// keeper is the part of a daemon that keeps the schedules of its file, with checks on request.
type keeper struct {
	*service
	stop  func()
	ended chan struct{}
	told  console
}

// daily returns a schedule of that name.
func daily(name string) config.Schedule {
	return config.Schedule{Name: name, Cron: "@daily", Zone: "UTC", Topic: "t", Body: "b", Missed: "once", Overlap: "allow", ExpireAfter: time.Hour}
}

// newKeeper returns a keeper, which start starts, with schedules in its file.
func newKeeper(t *testing.T, pool client.PoolOptions, schedules ...config.Schedule) *keeper {
	t.Helper()
	told := make(console, 100)
	log, err := logger.Open(logger.Options{Console: told})
	redistest.Check(t, err)
	connections := redistest.Must(client.Connect(pool))
	t.Cleanup(func() { connections.Close() })
	return &keeper{told: told, ended: make(chan struct{}), service: &service{log: log, recovered: newRecovery(), jobs: clienttest.Jobs(connections, ""), newSchedules: make(chan []config.Schedule),
		config: config.Config{Schedules: schedules}}}
}

// keep starts a keeper with schedules of these names in its file.
func keep(t *testing.T, db *redistest.Server, names ...string) *keeper {
	t.Helper()
	k := newKeeper(t, client.PoolOptions{Addr: db.Addr})
	for _, name := range names {
		k.config.Schedules = append(k.config.Schedules, daily(name))
	}
	k.start(t)
	return k
}

func (k *keeper) start(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer close(k.ended)
		k.keepSchedules(ctx)
	}()
	k.stop = func() {
		cancel()
		<-k.ended
	}
	t.Cleanup(func() {
		k.stop()
		k.log.Close()
	})
}

// expect waits for a line of its log.
func (k *keeper) expect(t *testing.T, want string) {
	t.Helper()
	if line := redistest.Receive(t, k.told); !strings.Contains(line, want) {
		t.Errorf("told %q, want %q", line, want)
	}
}

// outage triggers a check, as after an outage.
func (k *keeper) outage() {
	k.recovered.passed(context.DeadlineExceeded)
	k.recovered.passed(nil)
}

func expectSchedules(t *testing.T, db *redistest.Server, want ...string) {
	t.Helper()
	if got := db.State().Schedules; !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}
}

// Schedules lost by Redis are stored again after an outage. Schedules that somebody removed, as a schedule or as a job, stay away
// until a daemon starts.
func TestForgottenSchedules(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	c := clienttest.On(db.Pool())
	defer c.Close()
	k := keep(t, db, "a", "b", "c", "d")
	k.expect(t, "Schedules of the configuration file have changed: a, b, c, d")
	_, err := c.Schedules().Remove(t.Context(), "a")
	redistest.Check(t, err)
	_, err = c.Remove(t.Context(), store.ScheduleID("b"))
	redistest.Check(t, err)
	db.Do("DEL", "delayer:job_bucket:{d}@schedule")
	db.Do("ZREM", "delayer:schedules", "d") // simulates a loss in Redis
	db.Do("ZREM", "delayer:job_pool", store.ScheduleID("d"))
	for _, repaired := range []bool{false, true} {
		if repaired { // drops missing entries
			_, err := store.New(db.Pool(), "delayer:").RepairSchedules(t.Context(), "", true)
			redistest.Check(t, err)
			db.Do("DEL", "delayer:job_bucket:{d}@schedule")
			db.Do("ZREM", "delayer:schedules", "d")
		}
		k.outage()
		k.expect(t, "are stored again: d")
		if there := db.Do("EXISTS", "delayer:job_bucket:{a}@schedule", "delayer:job_bucket:{b}@schedule"); there != int64(0) {
			t.Errorf("%d of those that were removed are there", there)
		}
	}
	expectSchedules(t, db, "c", "d")

	db.Do("FLUSHALL")
	k.outage()
	k.expect(t, "Schedules of the configuration file were not in Redis any more, though nobody has removed them, and are stored again: a, b, c, d")
	_, err = c.Schedules().Remove(t.Context(), "a")
	redistest.Check(t, err)
	k.stop()
	keep(t, db, "a", "b", "c", "d").expect(t, "have changed: a")
	expectSchedules(t, db, "a", "b", "c", "d")
}

// The check also runs without an outage.
func TestForgottenSchedulesAreSeen(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	k := newKeeper(t, client.PoolOptions{Addr: db.Addr}, daily("a"))
	k.schedulesEvery = 20 * time.Millisecond
	k.start(t)
	k.expect(t, "have changed: a")
	db.Do("FLUSHALL")
	k.expect(t, "are stored again: a")
}

// A schedule is deleted when no running daemon has it in its file.
func TestDaemonsWithDifferentFiles(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	old := keep(t, db, "a", "b")
	old.expect(t, "have changed: a, b")
	other := keep(t, db, "b", "c")
	other.expect(t, "Schedules are kept that this configuration file does not have, as another daemon that runs has them: a")
	other.expect(t, "have changed: c")
	old.stop()
	keep(t, db, "a", "b").stop()
	expectSchedules(t, db, "a", "b", "c")

	other.outage()
	other.expect(t, "Schedules that no daemon's configuration file has any more are deleted: a")
	expectSchedules(t, db, "b", "c")
	other.stop()
	keep(t, db, "b").expect(t, "have changed: c")
	expectSchedules(t, db, "b")
}
