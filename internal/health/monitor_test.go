package health

import (
	"os"
	"testing"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.Run(m, 10)) }

func TestMonitor(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	f.SetUser(redistest.Rights(t, "operator"))
	jobs := inspect.New(redistest.Must(fleet.Open(fleet.NewRedis(f.UserPool(), 1, nil), "")))
	for _, test := range []struct {
		warning, critical string
		prepare           func()
		want              Level
		line              string
	}{
		{"", "servers=1", func() {}, Critical, "DELAYER CRITICAL - servers 0 | overdue=0s;;;0 lateness=0s;;;0 servers=0;;1:;0 waiting=0;;;0 ready=0;;;0 reserved=0;;;0 dead=0;;;0"},
		{"waiting=2", "", func() { f.Do("ZADD", "delayer:job_pool", 99999999999, "1") }, OK, "DELAYER OK - 1 jobs waiting, 0 ready | overdue=0s;;;0 lateness=0s;;;0 servers=0;;;0 waiting=1;2;;0 ready=0;;;0 reserved=0;;;0 dead=0;;;0"},
		{"waiting=1,dead=0", "ready=1", func() {}, Warning, ""},
		{"waiting=1", "overdue=5", func() { f.Do("ZADD", "delayer:job_pool", 1, "0") }, Critical, ""},
		{"memory=100", "", func() { f.Do("CONFIG", "SET", "maxmemory", "1gb") }, OK, ""},
		{"memory=90", "memory=100", func() { f.Do("CONFIG", "SET", "maxmemory", f.InfoNumber("memory", "used_memory")*20/19) }, Warning, ""},
		{"", "memory=100", func() { f.Do("CONFIG", "SET", "maxmemory", "1mb") }, Critical, ""},
		{"", "memory=100", func() { f.Do("DEL", "delayer:job_pool"); f.Do("ACL", "SETUSER", "u", "-info") }, Unknown, "DELAYER UNKNOWN - this user may not read memory | overdue=0s;;;0 lateness=0s;;;0 servers=0;;;0 waiting=0;;;0 ready=0;;;0 reserved=0;;;0 dead=0;;;0"},
	} {
		test.prepare()
		warning, critical := Limits{}, Limits{}
		if test.warning != "" {
			redistest.Check(t, warning.Parse(test.warning))
		}
		if test.critical != "" {
			redistest.Check(t, critical.Parse(test.critical))
		}
		status, line, err := Look(t.Context(), jobs).Monitor(warning, critical)
		if status != test.want || err != nil || test.line != "" && line != test.line {
			t.Errorf("%q, %q: %v, %q, %v", test.warning, test.critical, status, line, err)
		}
	}
	for _, text := range []string{"", "x=1", "dead", "dead=-1", "dead=x", "dead=NaN"} {
		if err := (Limits{}).Parse(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}
