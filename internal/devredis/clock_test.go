package devredis

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// However late whoever has the clock go on, a script finds that TTLs have run down by as much as time has passed.
func TestClockOfABusyMachine(t *testing.T) {
	m := miniredis.RunT(t)
	k := &clock{redis: m, last: time.Now(), step: ttlStep}
	m.Server().SetPreHook(k.beforeCommand)
	f := redistest.On(t, m.Addr())
	expires := func() float64 {
		got, err := redis.Values(f.Do("EVAL", "return {redis.call('TIME'), redis.call('PTTL', KEYS[1])}", 1, "key"), nil)
		redistest.Check(t, err)
		return redistest.Seconds(t, got[0]) + float64(got[1].(int64))/1000
	}
	f.Do("SET", "key", "1", "EX", 3600)
	first := expires()
	for range 5 {
		time.Sleep(longestStep)
		if late := expires() - first; late > longestStep.Seconds() || late < -longestStep.Seconds() {
			t.Fatalf("the key expires %.3f s later than it did", late)
		}
	}
}
