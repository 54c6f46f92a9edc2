//go:build !windows

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/doctor"
)

func TestDoctorCommand(t *testing.T) {
	t.Parallel()
	s, db := newShell(t, "--appendonly", "yes", "--requirepass", "secret", "--slowlog-log-slower-than", "60000000") // a busy machine is slow
	s.expect(2, "", "ERROR: doctor: --skip \"nothing\": want one of "+strings.Join(append(localChecks, doctor.Names()...), ", ")+"\n\n"+
		"Usage: delayer doctor [options]\n\"delayer help doctor\" tells more.\n", "doctor", "--skip", "nothing")
	s.expect(2, "DELAYER CRITICAL - Redis: counts: NOAUTH Authentication required.\n", "", "check")
	r := runBinary(t, s.dir, s.env, "doctor")
	if r.code != 3 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	_, port, _ := strings.Cut(db.Addr, ":")
	write(t, s.dir+"/delayer.conf", "[delayer]\naccess_log = "+s.dir+"\n[redis]\nport = "+port+"\npassword = secret\n")
	check(t, os.Chmod(s.dir+"/delayer.conf", 0o644))
	s.env = environment(t)
	r = runBinary(t, s.dir, s.env, "doctor", "--json", "-c", s.dir+"/delayer.conf", "--skip", "latency")
	var report doctor.Report
	check(t, json.Unmarshal([]byte(r.stdout), &report))
	var found []string
	for _, f := range report.Findings {
		found = append(found, f.Name)
	}
	if got := strings.Join(found, " "); r.code != 1 || got != "secret_files paths servers" || len(report.NotChecked) > 0 {
		t.Errorf("%q: %+v", got, r)
	}
	r = runBinary(t, s.dir, s.env, "doctor", "-c", s.dir+"/delayer.conf", "--skip", "latency", "--skip", "secret_files", "--skip", "paths", "--skip", "servers")
	if r.code != 0 || !strings.HasSuffix(r.stdout, " 4 skipped: nothing is wrong\n") {
		t.Errorf("%+v", r)
	}
	r = runBinary(t, s.dir, s.env, "check", "-c", s.dir+"/delayer.conf", "--critical", "servers=0")
	if r.code != 0 || !strings.HasPrefix(r.stdout, "DELAYER OK - 0 jobs waiting, 0 ready | overdue=0s;10;60;0 ") {
		t.Errorf("%+v", r)
	}
	for _, args := range [][]string{{"check", "more"}, {"check", "--warning", "x=1"}, {"check", "-c", s.dir + "/none.conf"}} {
		if r := runBinary(t, s.dir, s.env, args...); r.code != 3 || r.stderr == "" {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
