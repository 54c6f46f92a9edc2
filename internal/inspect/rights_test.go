package inspect

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// rights lists all permissions that an Inspector needs.
const rights = "~delayer:* &delayer:* +evalsha +eval +time +exists +type +info" +
	" +llen +lindex +lrange +lpos +lpush +rpop" +
	" +zcard +zcount +zrange +zrevrange +zscore +zmscore +zadd +zrem" +
	" +hget +hmget +hstrlen +hlen +hrandfield +hscan +hvals +hset +hdel +pttl +pexpire +rename +del +zpopmin +publish +pubsub"

func TestRights(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.pushMany("t", "w", 3, time.Minute, time.Second)
	f.push("t", "r", 0)
	f.push("t", "r2", 0)
	f.push("t", "r3", 0)
	f.reserve("t", time.Minute)
	f.ready("stray", time.Hour)
	f.Do("HSET", "delayer:job_bucket:stray", "topic", "u")
	f.letter("dead", "d", "r", "e", 1000)
	f.letter("dead", "d2", "r", "e", 1001)
	f.Do("HSET", "delayer:dead_letter:d", "options", "1 1 1")
	f.Do("HSET", "delayer:paused", "other", "1 0 0 0 note")
	f.Do("ACL", redis.Args{"SETUSER", "default", "resetkeys", "resetchannels", "-@all", "+acl", "+ping"}.AddFlat(strings.Fields(rights))...)
	for name, call := range map[string]func() error{
		"counts":      func() error { _, err := f.Counts(f.ctx); return err },
		"forecast":    func() error { _, err := f.Forecast(f.ctx, []time.Duration{time.Hour}); return err },
		"peak":        func() error { _, err := f.Peak(f.ctx, time.Hour, 0); return err },
		"shares":      func() error { _, err := f.Shares(f.ctx, 10); return err },
		"waiting":     func() error { _, err := f.Browse(f.ctx, Query{State: Waiting, Limit: 1}); return err },
		"reserved":    func() error { _, err := f.Browse(f.ctx, Query{State: Reserved}); return err },
		"ready":       func() error { f.ids(Query{State: Ready, Topic: "t", Limit: 1}, nil); return nil },
		"dead":        func() error { f.ids(Query{State: Dead, Topic: "dead", Limit: 1}, nil); return nil },
		"dead groups": func() error { _, err := f.DeadGroups(f.ctx, "dead", 10); return err },
		"history":     func() error { _, err := f.History(f.ctx); return err },
		"listeners": func() error {
			_, err := f.Inspector.Listeners(f.ctx, []store.WaitedFor{{Topic: "t", Limited: true}})
			return err
		},
		"paused":          func() error { _, err := f.Paused(f.ctx); return err },
		"schedules":       func() error { _, err := f.Schedules(f.ctx); return err },
		"schedule states": func() error { _, err := f.ScheduleStates(f.ctx); return err },
		"info":            func() error { _, err := f.Info(f.ctx); return err },
	} {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := f.RequeueDead(f.ctx, DeadFilter{Topic: "dead", Before: time.UnixMilli(1001)}); n != 1 || err != nil {
		t.Errorf("requeue: %d, %v", n, err)
	}
	if n, err := f.DropDead(f.ctx, DeadFilter{Topic: "dead"}); n != 1 || err != nil {
		t.Errorf("drop: %d, %v", n, err)
	}
	if n, err := f.Purge(f.ctx, "t", math.MaxInt); n != 2 || err != nil {
		t.Errorf("purge: %d, %v", n, err)
	}
	if denied := f.Do("ACL", "LOG").([]any); len(denied) > 0 {
		t.Errorf("Redis has refused %q", denied)
	}
}
