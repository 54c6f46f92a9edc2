package devredis_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Within a script, TTLs have decreased by the time that has passed.
func TestClockInScripts(t *testing.T) {
	f := start(t)
	expires := func() float64 {
		got, err := redis.Values(f.Do("EVAL", "return {redis.call('TIME'), redis.call('PTTL', KEYS[1])}", 1, "key"), nil)
		redistest.Check(t, err)
		return redistest.Seconds(t, got[0]) + float64(got[1].(int64))/1000
	}
	f.Do("SET", "key", "1", "EX", 3600)
	first := expires()
	for range 100 {
		time.Sleep(time.Millisecond)
		if late := expires() - first; late < -0.0011 || late > 0.0011 { // PTTL is in ms
			t.Fatalf("the key expires %.4f s later than it did", late)
		}
	}
}

// A command that waited for a script does not find a time before it was sent.
func TestClockBesideScripts(t *testing.T) {
	f := start(t)
	busy, done := dial(t, f), make(chan struct{})
	go func() {
		defer close(done)
		for {
			if _, err := busy.Do("EVAL", "for n = 1, 30000 do end", 0); err != nil {
				return
			}
		}
	}()
	for range 100 {
		sent := float64(time.Now().UnixMicro()-1) / 1e6
		if found := f.Clock(); found < sent {
			t.Errorf("TIME is %.1f ms before it was asked for", (sent-found)*1000)
			break
		}
	}
	busy.Close()
	<-done
}
