package main

import (
	"regexp"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func TestPartitionsCommand(t *testing.T) {
	s, r := newShellHere(t)
	s.expect(0, "partition  waiting  ready  reserved  dead  overdue  mover\n        0        0      0         0     0       0s      -\n", "", "partitions")

	s.env = append(s.env, "DELAYER_REDIS_PREFIX=shop:", "DELAYER_REDIS_PARTITIONS=2")
	s.expect(0, "{order}-1\n", "", "push", "t", "0", "b", "--id", "{order}-1") // the CRC16 of order is 0x3e99
	s.expect(0, "later\n", "", "push", "t", "1h", "b", "--id", "later")        // the CRC16 of later is 0x1353
	s.expect(0, `{"partitions":[{"partition":0,"waiting":0,"ready":0,"reserved":0,"dead":0,"overdue":0,"mover":null},`+
		`{"partition":1,"waiting":1,"ready":1,"reserved":0,"dead":0,"overdue":0,"mover":null}]}`+"\n", "", "partitions", "--json")
	redis := r.Pool()
	for _, server := range []store.ServerState{{ID: "one", Host: "one", PID: 1}, {ID: "2", Host: "t\nwo", PID: 2}} { // they prefer partitions 0 and 1
		server.Interval = time.Second
		_, err := store.New(redis, "shop:{0}:").Heartbeat(server, 1, 0).Do(t.Context())
		redistest.Check(t, err)
	}
	s.expect(0, "partition  waiting  ready  reserved  dead  overdue  mover\n"+
		"        0        0      0         0     0       0s  host one, pid 1\n"+
		"        1        1      1         0     0       0s  host t\\u000awo, pid 2\n", "", "partitions")
	r.Do("SET", "shop:{0}:job_pool", "broken")
	says := regexp.MustCompile(` script: [0-9a-f]+, on @user_script:\d+\.`).ReplaceAllString(s.run("partitions").stdout, "")
	if want := "partition  waiting  ready  reserved  dead  overdue  mover\n" +
		"        0        -      -         -     -        -  host one, pid 1\n" +
		"        1        1      1         0     0       0s  host t\\u000awo, pid 2\n" +
		"not complete: partition 0: WRONGTYPE Operation against a key holding the wrong kind of value\n"; says != want {
		t.Errorf("of a broken one: %q, want %q", says, want)
	}
	r.Do("DEL", "shop:{0}:job_pool")
	s.expect(0, "b\n", "", "pop", "t")
	s.expect(0, "removed later, which was waiting\n", "", "remove", "later")

	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=4")
	s.expect(3, "", `ERROR: push: partitions is 4 here, but 2 in Redis (shop:{0}:partitions): want the same number in all programs`+"\n", "push", "t", "0", "b")
}
