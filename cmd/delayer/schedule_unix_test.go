//go:build !windows

package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestScheduleCommands(t *testing.T) {
	s, db := newShellHere(t)
	r := s.run("schedule", "set", "report", "0 7 * * mon-fri", "reports", "all", "--zone", "Europe/Berlin", "--missed", "all", "--overlap", "skip",
		"--jitter", "30s", "--lease", "1m", "--max-attempts", "3")
	if r.code != 0 || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT07:00:00\+0[12]:00\n$`).MatchString(r.stdout) || r.stderr != "" {
		t.Errorf("set: %+v", r)
	}
	next := strings.TrimSpace(r.stdout)
	at, err := time.Parse(time.RFC3339, next)
	check(t, err)
	s.expect(0, `{"name":"report","next":"`+at.UTC().Format(time.RFC3339)+`"}`+"\n", "", "schedule", "set", "report", "0 7 * * mon-fri", "reports", "all", "--zone", "Europe/Berlin", "--overlap", "follow", "--json")
	s.expect(0, "name    cron             zone           topic    next                     paused  jobs  late  overlapped  while_paused\n"+
		"report  0 7 * * mon-fri  Europe/Berlin  reports  "+at.Local().Format(timeFormat)+"       -     0     0           0             0\n", "", "schedule", "list")
	s.expect(0, `{"schedules":[{"name":"report","cron":"0 7 * * mon-fri","zone":"Europe/Berlin","topic":"reports","body":"all","missed":"once","overlap":"follow","jitter":0,"expire_after":604800,"next":"`+
		at.UTC().Format(time.RFC3339)+`","jobs":0,"late":0,"overlapped":0,"while_paused":0,"past":[]}]}`+"\n", "", "schedule", "list", "--json")

	r = s.run("schedule", "run", "report")
	if r.code != 0 || !strings.HasPrefix(r.stdout, "{report}@now-") || !slices.Equal(db.Queue("reports"), []string{strings.TrimSpace(r.stdout)}) {
		t.Errorf("run: %+v, %v", r, db.Queue("reports"))
	}
	s.expect(0, "paused report\n", "", "schedule", "pause", "report")
	if r = s.run("schedule", "list"); !regexp.MustCompile(`000  \d{4}/\d\d/\d\d [\d:.]+     1 `).MatchString(r.stdout) {
		t.Errorf("list: %+v", r)
	}
	s.expect(0, "{}\n", "", "schedule", "resume", "report", "--json")
	s.expect(0, "removed report\n", "", "schedule", "remove", "report")
	s.expect(1, "", `schedule run "report": no such schedule`+"\n", "schedule", "run", "report")

	r = s.run("schedule", "set", "a", "@hourly", "t", "b", "--zone", "Asia/Kolkata", "--lease", "1m", "--max-attempts", "3")
	if r.code != 0 || !strings.HasSuffix(r.stdout, ":00:00+05:30\n") {
		t.Errorf("set: %+v", r)
	}
	db.Do("HSET", "delayer:job_bucket:{a}@schedule", "past", "1795322061250r3")
	for _, want := range []string{`"past":[{"at":"2026-11-22T04:34:21.25Z","what":"ran","late":`, `"max_attempts":3,`, `"expire_after":604800,`, `"lease":60,`} {
		s.keeps("schedule list --json", 0, want)
	}
}

// schedule next needs neither Redis nor a configuration.
func TestScheduleNext(t *testing.T) {
	s := shell{t: t, dir: t.TempDir(), env: environment(t)}.inHere()
	r := s.run("schedule", "next", "30 2 29 2 *", "--zone", "Asia/Shanghai")
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	if r.code != 0 || r.stderr != "" || len(lines) != 10 {
		t.Fatalf("%+v", r)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, "-02-29T02:30:00+08:00") {
			t.Errorf("%s is no such occurrence", line)
		}
	}
	var list struct{ Next []time.Time }
	r = s.run("schedule", "next", "@every 90s", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil || len(list.Next) != 10 || list.Next[9].Sub(list.Next[0]) != 9*90*time.Second {
		t.Errorf("%+v, %v", r, err)
	}
	s.expect(2, "", `ERROR: "* * * *": it has 4 fields, want 5: minute, hour, day of the month, month, day of the week`+"\n", "schedule", "next", "* * * *")
	s.expect(2, "", `ERROR: --zone "Local": want the name of a time zone, such as Europe/Berlin, or UTC`+"\n", "schedule", "next", "@daily", "--zone", "Local")
}

// The file's schedules are in force once the daemon has started. The next start deletes schedules that were removed from the
// file.
func TestSchedulesOfTheFile(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	s := newSite(t, db.Addr, "[schedule.tick]\ncron = @every 50ms\ntopic = t\nbody = tock\nheaders = {\"a\":\"b\"}", "[schedule.report]\ncron = 0 7 * * *\ntopic = reports")
	names := func() []string { return slices.Sorted(slices.Values(db.State().Schedules)) }
	p := s.started(t)
	redistest.Until(t, "its jobs come", func() bool { return len(db.Queue("t")) > 2 })
	if got := names(); !slices.Equal(got, []string{"report", "tick"}) {
		t.Errorf("there are %v", got)
	}
	p.expect(p.stdout, "Schedules of the configuration file have changed: report, tick")
	own := shell{t: t, dir: s.dir, env: environment(t, "DELAYER_REDIS_PORT="+db.Addr[strings.LastIndex(db.Addr, ":")+1:])}
	own.keeps("pop t --json", 0, `,"headers":{"a":"b"},"body":"tock"}`+"\n")
	own.keeps("schedule set own @daily t b", 0, "")
	p.stopped()
	s.change(t, "[schedule.tick]\ncron = @every 50ms\ntopic = t\nbody = tock\nheaders = {\"a\":\"b\"}\n", "")
	p = s.started(t)
	p.expect(p.stdout, "Schedules of the configuration file have changed: tick")
	if got := names(); !slices.Equal(got, []string{"own", "report"}) {
		t.Errorf("then there are %v", got)
	}
	p.stopped()
	before := db.State()
	p = s.started(t)
	p.stopped()
	if after := db.State(); !maps.Equal(after.Buckets, before.Buckets) || !slices.Equal(after.Pool, before.Pool) {
		t.Errorf("a start that changes nothing has left %+v, want %+v", after, before)
	}
}

// If Redis is down at the start, the file's schedules are stored when it is back.
func TestSchedulesOfTheFileWait(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	s := newSite(t, db.Addr, "[schedule.report]\ncron = 0 7 * * *\ntopic = reports")
	db.Kill()
	p := s.started(t)
	db.Restart()
	redistest.Until(t, "it is there", func() bool { return len(db.State().Schedules) == 1 })
	p.stopped()
}

// The daemon's documented permissions suffice.
func TestRightsOfTheFilesSchedules(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	db.SetUser(redistest.Rights(t, "daemon"))
	s := newSite(t, db.Addr, "username = u\npassword = p", "[schedule.tick]\ncron = @every 50ms\ntopic = t")
	p := s.started(t)
	redistest.Until(t, "its jobs come", func() bool { return len(db.Queue("t")) > 2 })
	p.stopped()
	expectNothingRefused(t, db)
}
