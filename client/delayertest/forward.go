package delayertest

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Forward lets so much time pass, rounded up to milliseconds, and returns when all that falls
// due until then is in its ready queue, each job at its time: waiting jobs, those to be
// tried again, and those whose leases end. Jobs whose lifetime ends are gone. Consumers
// that wait, such as a worker that runs, get the jobs at once, but Forward does not wait for them. So do those whom a limit of the topic
// holds back, if it lets them go on by then; where it would have done so within 5 s they may come that much later by the host's clock.
//
// With 0 no time passes.
func (d *Delayer) Forward(t testing.TB, by time.Duration) {
	t.Helper()
	if by < 0 {
		t.Fatalf("delayertest: Forward by %v: time does not go back; want 0 or more", by)
	}
	d.forwarding.Lock()
	defer d.forwarding.Unlock()
	defer d.clock.release()
	until := d.clock.get().Add(wholeMilliseconds(by))
	for {
		next, err := d.nextDue(until)
		if err != nil {
			t.Fatalf("delayertest: Forward: %v", err)
		}
		d.clock.hold(next)
		if err := d.server.Pass(context.Background()); err != nil {
			t.Fatalf("delayertest: Forward: %v", err)
		}
		if next.Equal(until) {
			break
		}
	}
	if err := d.wakeHeldBack(); err != nil {
		t.Fatalf("delayertest: Forward: %v", err)
	}
}

// wakeHeldBack has those ask again whom limits hold back: they wait by the host's clock.
func (d *Delayer) wakeHeldBack() error {
	conn := d.pool.Get()
	defer conn.Close()
	topics, err := redis.Strings(conn.Do("HKEYS", d.keys.Limits()))
	if err != nil || len(topics) == 0 {
		return err
	}
	_, err = store.New(d.pool, store.DefaultPrefix).Wake(topics).Do(context.Background())
	return err
}

// nextDue is the millisecond in which something falls due next, until at the latest.
func (d *Delayer) nextDue(until time.Time) (time.Time, error) {
	conn := d.pool.Get()
	defer conn.Close()
	now := d.clock.get()
	first, err := redis.Strings(conn.Do("ZRANGEBYSCORE", d.keys.JobPool(), "("+score(now), score(until), "WITHSCORES", "LIMIT", 0, 1))
	if err != nil || len(first) == 0 {
		return until, err
	}
	seconds, err := strconv.ParseFloat(first[1], 64)
	due := time.UnixMicro(int64(seconds*1e6 + 0.5))
	return now.Add(wholeMilliseconds(due.Sub(now))), err
}

// score is a time in whole milliseconds as the pool has it.
func score(t time.Time) string { return fmt.Sprintf("%d.%03d", t.Unix(), t.Nanosecond()/1e6) }
