//go:build !windows

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A backup taken as docs/backup.md says, while a server runs, brings back jobs, leases, schedules, limits and pauses.
func TestBackupIsRestored(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t, "--appendonly", "yes", "--repl-diskless-sync-delay", "0") // for redis-cli --rdb
	newSite(t, db.Addr).started(t)
	fillForBackup(t, db)
	snapshot := filepath.Join(t.TempDir(), "jobs.rdb")
	host, port, _ := net.SplitHostPort(db.Addr)
	if out, err := exec.Command("redis-cli", "-h", host, "-p", port, "--rdb", snapshot).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	want := everything(t, db)
	for name, r := range map[string]struct{ from, to, appendonly, want string }{
		"snapshot":                     {snapshot, "dump.rdb", "no", want},
		"AOF":                          {filepath.Join(db.Dir, "appendonlydir"), "appendonlydir", "yes", want},
		"snapshot, ignored for an AOF": {snapshot, "dump.rdb", "yes", everything(t, redistest.Start(t))},
	} {
		if _, err := os.Stat(r.from); err != nil {
			t.Logf("%s: %v", name, err) // Redis 6.2 has a file
			continue
		}
		restored := redistest.Start(t, "--appendonly", r.appendonly)
		restored.Kill()
		check(t, os.RemoveAll(filepath.Join(restored.Dir, "appendonlydir")))
		check(t, os.RemoveAll(filepath.Join(restored.Dir, "appendonly.aof")))
		if out, err := exec.Command("cp", "-r", r.from, filepath.Join(restored.Dir, r.to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		restored.Restart()
		if got := everything(t, restored); got != r.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, r.want)
		}
		if out, code := onRedis(t, restored, "fsck"); code != 0 {
			t.Errorf("%s: fsck finds %s", name, out)
		}
	}
}

// fillForBackup pushes waiting, ready and dead jobs, reserves one, and adds a schedule, a limit and a pause.
func fillForBackup(t *testing.T, db *redistest.Server) {
	c, err := client.Open("redis://" + db.Addr)
	check(t, err)
	defer c.Close()
	ctx := context.Background()
	for i := range 20 {
		_, err := c.Push(ctx, client.Message{ID: fmt.Sprint("order-", i), Topic: "orders", Body: "b"}, time.Hour)
		check(t, err)
		_, err = c.Push(ctx, client.Message{ID: fmt.Sprint("mail-", i), Topic: "mails", Body: "b"}, 0)
		check(t, err)
	}
	dead, err := c.Reserve(ctx, time.Hour, "mails")
	check(t, err)
	check(t, dead.Bury(ctx, errors.New("for ever")))
	_, err = c.Reserve(ctx, time.Hour, "mails")
	check(t, err)
	_, err = c.Schedules().Set(ctx, client.Schedule{Name: "yearly", Cron: "0 0 1 1 *", Topic: "report", Body: "b"})
	check(t, err)
	check(t, c.SetLimit(ctx, "mails", client.Limit{Concurrency: 5}))
	check(t, c.Pause(ctx, "orders", client.PauseOptions{Note: "moving"}))
}

// everything returns what a backup has to bring back.
func everything(t *testing.T, db *redistest.Server) string {
	t.Helper()
	all := ""
	for _, command := range []string{"export orders", "list mails --state ready", "list --state reserved", "dead list mails", "schedule list", "topics --limited", "topics --paused"} {
		out, code := onRedis(t, db, strings.Fields(command)...)
		if code != 0 {
			t.Errorf("%s: %d: %s", command, code, out)
		}
		all += command + ":\n" + out
	}
	return all
}

func onRedis(t *testing.T, db *redistest.Server, args ...string) (string, int) {
	t.Helper()
	r := runBinary(t, t.TempDir(), environment(t, "DELAYER_REDIS_URL=redis://"+db.Addr), append(args, "--quiet")...)
	return r.stdout + r.stderr, r.code
}

// A move to another Redis by FAILOVER, as docs/backup.md describes it, loses no push that had succeeded, and a push to the old one is refused.
func TestMoveToAnotherRedis(t *testing.T) {
	t.Parallel()
	old := redistest.Start(t)
	replica := redistest.StartReplica(t, old)
	c, err := client.Open("redis://" + old.Addr)
	check(t, err)
	defer c.Close()
	pushed, last := make(chan int), error(nil)
	var some sync.WaitGroup // pushes before the move
	some.Add(50)
	go func() {
		n := 0
		for ; last == nil; n++ {
			if n > 0 && n <= 50 {
				some.Done()
			}
			_, last = c.Push(context.Background(), client.Message{ID: fmt.Sprint(n), Topic: "t", Body: "b"}, time.Hour)
		}
		pushed <- n - 1
	}()
	some.Wait()
	host, port, _ := net.SplitHostPort(replica.Addr)
	old.Do("FAILOVER", "TO", host, port)
	n := <-pushed
	if !strings.Contains(last.Error(), "READONLY") {
		t.Errorf("the last push failed with %v", last)
	}
	if out, code := onRedis(t, old, "doctor"); code != exit.Nothing || !strings.Contains(out, "redis: READONLY") {
		t.Errorf("doctor on the old Redis: %d, %s", code, out)
	}
	for i := range n {
		if exists := replica.Do("EXISTS", fmt.Sprint("delayer:job_bucket:", i)); exists != int64(1) {
			t.Fatalf("job %d of %d is lost: %v", i, n, exists)
		}
	}
}
