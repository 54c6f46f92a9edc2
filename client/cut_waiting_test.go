package client_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// waitThroughCut returns the commands that were sent, and reports whether the lost reply had the job.
func (j *cutJob) waitThroughCut(cutter *redistest.Cutter, n int, after bool) (sent []string, lost bool) {
	j.TB.Helper()
	ctx := j.TB.Context()
	j.Flush()
	j.Do("SCRIPT", "FLUSH")
	cutter.Arm(n, after)
	c := redistest.Must(client.OpenPool(j.reach(client.PoolOptions{Addr: cutter.Addr}), client.WithPrefix(j.Prefix)))
	defer c.Close()
	defer j.move(j.Addr)()
	delivered := make(chan *client.Delivery, 1)
	go func() {
		d, err := c.Reserve(ctx, time.Hour, "t")
		if err != nil {
			j.TB.Error(err)
		}
		delivered <- d
	}()
	until(j.TB, "it listens", func() bool { return j.Waiters("t") > 0 || len(delivered) > 0 })
	j.isReady()
	until(j.TB, "it has the job", func() bool {
		if !lost && strings.Contains(cutter.Lost(), cutID) {
			lost = true
			j.endLease()
		}
		return len(delivered) > 0
	})
	sent = cutter.Commands()
	cutter.Arm(0, false)
	if d := <-delivered; d != nil {
		if err := d.Ack(ctx); err != nil {
			j.TB.Error(err)
		}
	}
	j.Expect(state{})
	return sent, lost
}

// A waiting Reserve gets the job, no matter at which command it or its subscription is cut.
func TestCutsOfAWaitingReserve(t *testing.T) {
	t.Parallel()
	f := start(t, alone, undivided)
	cutter := redistest.StartCutter(t, f.Addr)
	f.behind(cutter.Addr)
	commands := 0
	for n := 0; n <= commands; n++ { // the first round is without a cut
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("command %d, answered %v", n, after), func(t *testing.T) {
				j := &cutJob{fixture: f.with(t)}
				sent, lost := j.waitThroughCut(cutter, n, after)
				if n == 0 {
					commands = max(commands, len(sent))
				} else if len(sent) >= n {
					t.Logf("cut at %s, the job was in the lost answer: %v", sent[n-1], lost)
				}
			})
		}
	}
	if commands < 6 { // PING and the script, not loaded at first; PING, SUBSCRIBE; the script again
		t.Errorf("%d commands", commands)
	}
}
