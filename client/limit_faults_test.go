package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// A limit that throttles a Reserve does not affect a Pop or BPop of the same Client.
func TestBPopDuringAThrottledReserve(t *testing.T) {
	f := start(t, undivided)
	ctx := t.Context()
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: 1}))
	for i := range 3 {
		check(t, errOf(f.Push(ctx, message(fmt.Sprint(i)), 0)))
	}
	c := f.open()
	check(t, errOf(c.Reserve(ctx, 0, time.Hour, "t")))
	go c.Reserve(ctx, 0, time.Hour, "t")
	until(t, "the Reserve is throttled", func() bool { return f.Do("ZCARD", f.Prefix+"throttled_waiters:t") == int64(1) })
	check(t, errOf(c.Pop(ctx, "t")))
	check(t, errOf(f.Pop(ctx, "t")))
	check(t, errOf(f.Push(ctx, message("more"), 0)))
	check(t, errOf(c.BPop(ctx, time.Millisecond, "t")))
}
