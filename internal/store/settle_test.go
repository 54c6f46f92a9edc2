package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Many concurrent calls each get their own answer, even if Redis has forgotten the script or refuses some calls.
func TestSettle(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		const topics = 2 * manyCalls
		var seed [][]command
		for n := range topics {
			seed = append(seed, waits(fmt.Sprint("a", n), fmt.Sprint("t", n), -2*second), waits(fmt.Sprint("b", n), fmt.Sprint("t", n), -second))
		}
		b.seed(t, seed...)
		b.do(t, "SET", "delayer:ready_queue:t3", "no list")
		b.do(t, "SCRIPT", "FLUSH")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for _, id := range []string{"a", "b"} {
			p, err := b.Pipeline(ctx)
			check(t, err)
			var answers []*Call[Moved]
			for n := range topics {
				answers = append(answers, b.Move(batch(fmt.Sprint("t", n), fmt.Sprint(id, n)), time.Now(), time.Now(), time.Now()).Send(p))
			}
			finding := b.Store.Due(Query{Limit: 1}).Send(p)
			p.ReceiveAll(ctx)
			for n, answer := range answers {
				got, err := answer.Wait(ctx)
				if moved := n != 3; err != nil || got.Topic != fmt.Sprint("t", n) || (len(got.IDs) == 1) != moved || (got.PutBack == 1) == moved {
					t.Errorf("%s%d: %+v, %v", id, n, got, err)
				}
			}
			check(t, errOf(finding.Wait(ctx)))
			p.Close()
		}
	}, alone)
}

// The end of the context ends the wait.
func TestSettleEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Hang()
	defer server.Continue()
	b := newBackend(server.Fixture, server.Pool())
	p, err := b.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var answers []*Call[Moved]
	for range 2 * manyCalls {
		answers = append(answers, b.Move(batch("t", "a"), time.Now(), time.Now(), time.Now()).Send(p))
	}
	p.ReceiveAll(ctx)
	for _, answer := range answers {
		if _, err := answer.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
}
