//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/internal/doctor"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A new check of files, settings or sentinels needs a test that plants its fault.
func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	s, db := newShell(t, "--appendonly", "yes", "--requirepass", "secret", "--slowlog-log-slower-than", "60000000") // a busy machine is slow
	s.expect(2, "", "ERROR: doctor: --skip \"nothing\": want one of settings, secret_files, paths, sentinels, "+strings.Join(doctor.Names(), ", ")+"\n\n"+
		"Usage: delayer doctor [options]\n\"delayer help doctor\" tells more.\n", "doctor", "--skip", "nothing")
	s.expect(2, "DELAYER CRITICAL - Redis: count jobs: NOAUTH Authentication required.\n", "", "nagios")
	r := s.run("doctor")
	if r.code != 3 || !strings.HasPrefix(r.stdout, "redis: redis refuses: NOAUTH ") || !strings.HasSuffix(r.stdout, "\n4 checks made, 25 not made, 0 skipped: findings: 1\n") {
		t.Errorf("%+v", r)
	}
	_, port, _ := strings.Cut(db.Addr, ":")
	write(t, s.dir+"/delayer.conf", "[delayer]\naccess_log = "+s.dir+"\n[redis]\nport = "+port+"\npassword = secret\n")
	check(t, os.Chmod(s.dir+"/delayer.conf", 0o644))
	s.env = environment(t)
	r = s.run("doctor", "--json", "-c", s.dir+"/delayer.conf", "--skip", "latency")
	var report doctor.Report
	check(t, json.Unmarshal([]byte(r.stdout), &report))
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.Kind)
	}
	if got := strings.Join(found, " "); r.code != 1 || got != "secret_files paths servers" || len(report.NotChecked) > 0 {
		t.Errorf("%q: %+v", got, r)
	}
	r = s.run("doctor", "-c", s.dir+"/delayer.conf", "--skip", "latency", "--skip", "secret_files", "--skip", "paths", "--skip", "servers")
	if r.code != 0 || !strings.HasSuffix(r.stdout, " 4 skipped: nothing is wrong\n") {
		t.Errorf("%+v", r)
	}
	r = s.run("nagios", "-c", s.dir+"/delayer.conf", "--critical", "servers=0")
	if r.code != 0 || !strings.HasPrefix(r.stdout, "DELAYER OK - 0 jobs waiting, 0 ready | overdue=0s;10;60;0 ") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"nagios", "more"}, {"nagios", "--warning", "x=1"}, {"nagios", "-c", s.dir + "/none.conf"}} {
		if r := s.run(args...); r.code != 3 || r.stderr == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// Before the first start, the doctor says what a start would meet. It exits with 3 if Redis is away, or a start would fail.
func TestDoctorBeforeTheFirstStart(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t, "--requirepass", "right")
	db.Do("AUTH", "right")
	grant := func(user, rights string) string {
		db.Do("ACL", redis.Args{"SETUSER", user, "on", ">pass"}.AddFlat(strings.Fields(rights))...)
		return "username = " + user + "\npassword = pass"
	}
	all := redistest.Rights(t, "daemon", "operator", "doctor")
	line := func(user string) string {
		return "fix: redis-cli, then ACL SETUSER " + user + " " + strings.TrimSpace(redistest.Rights(t, "daemon")) + "\n"
	}
	const noServer = "servers: no server runs: nothing becomes ready\n"
	evicts := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	away := redistest.Nobody(t)
	for _, c := range []struct {
		name, addr, lines string
		code              int
		says              []string
	}{
		{"all is well", db.Addr, "password = right", 1, []string{noServer}},
		{"the documented user", db.Addr, grant("documented", all), 1, []string{noServer}},
		{"the daemon's user", db.Addr, grant("daemon", redistest.Rights(t, "daemon")), 1, []string{noServer, "not checked: eviction_policy needs +info\n"}},
		{"no channels", db.Addr, grant("deaf", all+" resetchannels"), 1, []string{noServer, "channels: redis does not let this user subscribe to ", line("deaf")}},
		{"no pauses", db.Addr, grant("old", all+" -lmove -rename"), 1, []string{noServer, "features: some features will not work: paused topics; who uses them gives its ACL +lmove +rename\n", line("old")}},
		{"evicts", evicts.Addr, "", 1, []string{noServer, "eviction_policy: a full Redis evicts jobs: its maxmemory-policy is allkeys-lru\n"}},
		{"no moves", db.Addr, grant("weak", all+" -time -zadd -lpush"), 3, []string{"redis: redis refuses: NOPERM this user has no permissions to run TIME, nor ZADD, nor LPUSH\n", line("weak")}},
		{"wrong password", db.Addr, "password = wrong", 3, []string{"redis: redis refuses: WRONGPASS ", "fix: correct what it names in [redis] of delayer.conf: "}},
		{"misspelt password", db.Addr, "passwd = right", 3, []string{"settings: ", "did you mean password?", "redis: redis refuses: NOAUTH "}},
		{"no TLS", db.Addr, "tls = true\nconnect_timeout = 1000", 3, []string{"redis: redis refuses: it does not speak TLS on this port: set redis.tls = false"}},
		{"away", away, "", 3, []string{"redis: dial tcp " + away + ": connect: connection refused\n  fix: start Redis, or repair the network\n"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, c.addr, c.lines)
			r := runBinary(t, s.dir, environment(t), "doctor", "-c", s.conf)
			for _, text := range c.says {
				if !strings.Contains(r.stdout, text) {
					t.Errorf("%s\nlacks %q", r.stdout, text)
				}
			}
			if r.code != c.code || exists(s.pid) || exists(s.access) {
				t.Errorf("exit code %d, want %d; %+v", r.code, c.code, r)
			}
		})
	}
}

// The doctor reports a sentinel that does not respond, too few of them, and different masters; if the sentinels' user may not ask, that
// it has not checked.
func TestDoctorOfSentinels(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	watched := redistest.StartSentinels(t)
	look := func(url string) doctor.Report {
		t.Helper()
		r := runBinary(t, t.TempDir(), environment(t, "DELAYER_REDIS_URL="+url), "doctor", "--json")
		var report doctor.Report
		check(t, json.Unmarshal([]byte(r.stdout), &report))
		report.Findings = slices.DeleteFunc(report.Findings, func(f doctor.Finding) bool { return f.Kind != "sentinels" })
		return report
	}
	want := func(r doctor.Report, evidence ...string) {
		t.Helper()
		ok := len(r.Findings) == len(evidence)
		for i := range min(len(evidence), len(r.Findings)) {
			ok = ok && strings.Contains(r.Findings[i].Evidence, evidence[i])
		}
		if !ok {
			t.Errorf("%+v, want %q", r.Findings, evidence)
		}
	}
	url := "redis-sentinel://" + strings.Join(watched.Addrs(), ",") + "?master=m"
	want(look(url))
	watched.Sentinels[0].Do("ACL", "SETUSER", "u", "on", ">p", "&*", "+sentinel|get-master-addr-by-name", "+ping")
	r := look("redis-sentinel://" + watched.Sentinels[0].Addr + "?master=m&sentinel_username=u&sentinel_password=p")
	if want(r); len(r.NotChecked) != 1 || r.NotChecked[0].Name != "sentinels" {
		t.Errorf("%+v", r.NotChecked)
	}
	other := redistest.Start(t)
	misled := redistest.StartSentinel(t, other, 1)
	want(look("redis-sentinel://"+strings.Join(watched.Addrs(), ",")+","+misled.Addr+"?master=m"), "sentinels disagree about the master: ")
	watched.Sentinels[2].Kill()
	want(look(url), "sentinel "+watched.Sentinels[2].Addr+" does not respond: cannot connect")
	watched.Sentinels[1].Kill()
	eventually(t, "the last sentinel misses the others", func() bool {
		_, err := watched.Sentinels[0].Conn().Do("SENTINEL", "CKQUORUM", "m")
		return err != nil
	})
	want(look(url), "sentinel "+watched.Sentinels[0].Addr+" says: NOQUORUM", " does not respond", " does not respond")
}

// Settings that the environment replaces, or that have no effect, are found.
func TestDoctorOfSettings(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	_, port, _ := strings.Cut(db.Addr, ":")
	write(t, s.dir+"/delayer.conf", "[redis]\nport = "+port+"\nmax_active = 1\nmax_idle = 2\n")
	r := runBinary(t, s.dir, environment(t), "doctor", "-c", s.dir+"/delayer.conf")
	if r.code != 1 || !strings.HasPrefix(r.stdout, "settings: ") || !strings.Contains(r.stdout, "max_idle is 2 but max_active is 1") {
		t.Errorf("%+v", r)
	}
}

// With one of two partitions broken, stats, nagios, doctor, /readyz and the dashboard say the same.
func TestOneOfTwoPartitionsIsBroken(t *testing.T) {
	t.Parallel()
	db := redistest.Start(t)
	s := shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_URL=redis://"+db.Addr+"?partitions=2")}
	url := urlOf(newSite(t, db.Addr, "partitions = 2", "[http]", "listen = 127.0.0.1:0").started(t))
	db.Do("SET", "delayer:{1}:job_pool", "x")
	for path, says := range map[string]string{"/readyz": "partition 1: WRONGTYPE", "/": "partition 1: WRONGTYPE", "/metrics": `delayer_partition_up{partition="1"} 0`} {
		eventually(t, path+" says it", func() bool {
			_, body := get(t, http.DefaultClient, url+path)
			return strings.Contains(body, says)
		})
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, "not complete: partition 1: WRONGTYPE", []string{"stats"}},
		{0, `"broken_partitions":[1]`, []string{"stats", "--json"}},
		{0, "not complete: partition 1: WRONGTYPE", []string{"forecast"}},
		{0, "not complete: partitions that can't be read: [1]", []string{"forecast", "--url", url}},
		{0, "not complete: partitions that can't be read: [1]", []string{"topics", "--url", url}},
		{0, `"broken_partitions":[1]`, []string{"forecast", "--json", "--url", url}},
		{0, `"broken_partitions":[1]`, []string{"topics", "--json"}},
		{2, "DELAYER CRITICAL - partition 1: WRONGTYPE", []string{"nagios", "--critical", "servers=0"}},
		{1, "unreadable: partition 1: WRONGTYPE", []string{"doctor"}},
	} {
		if r := s.run(c.args...); r.code != c.code || !strings.Contains(r.stdout, c.says) {
			t.Errorf("%q: %+v, want %q", c.args, r, c.says)
		}
	}
}

// One unreadable key costs stats and doctor only what it has.
func TestUnreadableParts(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.run("push", "t", "0", "b")
	for _, c := range []struct{ key, stats, doctor string }{
		{"servers", "not complete: read servers: WRONGTYPE", "unreadable: read servers: WRONGTYPE"},
		{"paused", "not complete: read pauses: WRONGTYPE", "unreadable: read pauses: WRONGTYPE"},
		{"history", "not complete: read statistics: WRONGTYPE", "unreadable: read statistics: WRONGTYPE"},
		{"schedules", "t  ", "unreadable: schedules: read schedules: WRONGTYPE"},
	} {
		db.Do("SET", "delayer:"+c.key, "x")
		if r := s.run("stats"); r.code != 0 || !strings.Contains(r.stdout, c.stats) {
			t.Errorf("%s: %+v, want %q", c.key, r, c.stats)
		}
		if r := s.run("doctor"); r.code != 1 || !strings.Contains(r.stdout, c.doctor) || !strings.Contains(r.stdout, "persistence: ") {
			t.Errorf("%s: %+v, want %q", c.key, r, c.doctor)
		}
		db.Do("DEL", "delayer:"+c.key)
	}
}

func TestFsckCommand(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(0, "0 keys and 0 entries checked: nothing is wrong\n", "", "fsck")
	s.expect(0, `{"keys":0,"entries":0,"findings":[],"left":0,"busy_topics":0}`+"\n", "", "fsck", "--json")
	db.Do("ZADD", "delayer:schedules", "0", "gho\x1bst")
	s.expect(1, "schedule_without_job: 1 found, 0 repaired: names of schedules that do not exist\n  gho\\u001bst\n"+
		"1 keys and 0 entries checked: faults: 1; delayer fsck --repair repairs them\n", "", "fsck")
	s.expect(0, `{"keys":1,"entries":0,"findings":[{"kind":"schedule_without_job","found":1,"repaired":1,"left":0,"examples":["gho\u001bst"]}],"left":0,"busy_topics":0}`+"\n", "", "fsck", "--json", "--repair")
	db.Do("SET", "delayer:what", "")
	s.keeps("fsck --repair", 1, ": faults left: 1\n")
	s.expect(1, "unknown_key: 1 found, 0 repaired: keys under the prefix that Delayer does not know; they stay\n  delayer:what\n"+
		"1 keys and 0 entries checked: faults: 1, which delayer fsck leaves as they are\n", "", "fsck")
	db.Do("ZADD", "delayer:schedules", "0", "a", "0", "b")
	s.keeps("fsck", 1, ": faults: 3; delayer fsck --repair repairs 2 of them\n")
	s.env = environment(t, "DELAYER_REDIS_PORT=1")
	s.keeps("fsck", 3, "")
}

// files returns everything in a folder, with the contents of files and the targets of links.
func files(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		found[path] = info.Mode().String() + " " + info.ModTime().String()
		if info.Mode().IsRegular() {
			found[path] += read(tb, path)
		}
		return nil
	})
	check(tb, err)
	return found
}

// --check-config finds everything that would keep the daemon from starting, all at once, and changes
// nothing.
func TestCheckConfigTriesThePaths(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	const good = "SITE/delayer.conf: the configuration is good\n"
	for _, test := range []struct {
		name           string
		change         func(s site)
		stdout, stderr string // SITE stands for the site's folder
	}{
		{"nothing there yet", func(site) {}, good, ""},
		{"all there already", func(s site) {
			write(t, s.pid, "99999999")
			write(t, s.access, "a\n")
			write(t, s.errors, "e\n")
		}, good, ""},
		{"no paths", func(s site) {
			s.change(t, s.pid, "")
			s.change(t, s.access, "")
			s.change(t, s.errors, "")
		}, good, ""},
		{"files in the way of folders", func(s site) {
			write(t, filepath.Dir(s.pid), "")
			write(t, filepath.Dir(s.access), "")
		}, "", "ERROR: delayer.pid: open SITE/run/delayer.pid: not a directory\n" +
			"ERROR: delayer.access_log: stat SITE/logs/access.log: not a directory\n" +
			"ERROR: delayer.error_log: stat SITE/logs/error.log: not a directory\n"},
		{"folders in the way of files", func(s site) {
			os.MkdirAll(s.pid, 0o755)
			os.MkdirAll(s.access, 0o755)
		}, "", "ERROR: delayer.pid: open SITE/run/delayer.pid: is a directory\n" +
			"ERROR: delayer.access_log: open SITE/logs/access.log: is a directory\n"},
		{"a pid file that is another's", func(s site) {
			write(t, s.pid, "precious")
		}, "", "ERROR: delayer.pid: SITE/run/delayer.pid holds something else than a process ID: want the path of a file of its own, or nothing\n"},
		{"an address that is in use", func(s site) {
			s.change(t, "[redis]", "[http]\nlisten = "+taken.Addr().String()+"\n[redis]")
		}, "Note: http.listen = " + taken.Addr().String() + ": bind: address already in use\n" + good, ""},
		{"an address of elsewhere", func(s site) {
			s.change(t, "[redis]", "[http]\nlisten = 203.0.113.1:80\ninsecure = true\n[redis]")
		}, "", "ERROR: http.listen = 203.0.113.1:80: bind: cannot assign requested address\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, redistest.Nobody(t))
			test.change(s)
			before := files(t, s.dir)
			r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
			want := result{strings.ReplaceAll(test.stdout, "SITE", s.dir), strings.ReplaceAll(test.stderr, "SITE", s.dir), 0}
			if test.stderr != "" {
				want.code = exit.Usage
			}
			if r != want {
				t.Errorf("got %+v\nwant %+v", r, want)
			}
			if after := files(t, s.dir); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
}

// --check-config accepts the configuration of a running service.
func TestCheckConfigBesideARunningService(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "[http]", "listen = "+redistest.Nobody(t))
	p := s.started(t)
	r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
	if want := (result{fmt.Sprintf("Note: the service is running, PID: %d\n%s: the configuration is good\n", p.pid(), s.conf), "", 0}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if got := read(t, s.pid); got != strconv.Itoa(p.pid()) {
		t.Errorf("pid file %q", got)
	}
}

// A user without the permissions of every server and worker gets an error and no retry, whatever the wording with which this
// Redis refuses a script.
func TestScriptsRefused(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	redisServer.Do("LPUSH", "delayer:ready_queue:t", "an ID")
	for user, rights := range map[string]string{"clockless": "~* &* +@all -time", "poolless": "~* &* +@all -zadd", "keyless": "~delayer:none &* +@all"} {
		redisServer.Do("ACL", redis.Args{"SETUSER", user, "on", ">pass"}.AddFlat(strings.Fields(rights))...)
		s := newSite(t, redisServer.Addr, "username = "+user+"\npassword = pass")
		for name, args := range map[string][]string{"daemon": nil, "worker": {"worker", "--topic", "t", "cat"}, "push": {"push", "t", "1h", "b"}} {
			t.Run(user+" "+name, func(t *testing.T) {
				t.Parallel()
				if r := runBinary(t, s.dir, environment(t), append([]string{"-c", s.conf}, args...)...); r.code != exit.Redis || !strings.Contains(r.stderr, "ERROR: ") {
					t.Errorf("%+v, want exit code %d", r, exit.Redis)
				}
			})
		}
	}
}

// The file's warnings are printed although something else is wrong, which they may explain.
func TestCheckWarnsBesideAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t), "passwd = secret")
	write(t, filepath.Dir(s.pid), "")
	r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
	if r.code == 0 || !strings.Contains(r.stderr, "not a directory") || !strings.Contains(r.stdout, "did you mean password?") {
		t.Errorf("%+v", r)
	}
}
