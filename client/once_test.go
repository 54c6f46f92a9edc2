package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Many producers push the same IDs again and again, while their connections are cut and consumers take the jobs. Each
// ID counts once.
func TestOnceRace(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	c := f.as("producer", "~* &* +@all")
	const ids, pushers = 100, 8
	var counted, taken tally
	var calls sync.WaitGroup
	for range pushers {
		calls.Go(func() {
			for i := range ids {
				m := client.Message{ID: fmt.Sprint(i), Topic: "t", Body: "b"}
				for done := false; !done; {
					pushed, err := c.Push(t.Context(), m, 0, client.IfExists(client.Once(time.Hour)))
					if done = err == nil || errors.Is(err, client.ErrExists); done && pushed.ID != m.ID {
						t.Errorf("pushed or refused %q, want %q", pushed.ID, m.ID)
					}
					if err == nil {
						counted.add(pushed.ID)
					}
				}
			}
		})
	}
	stop := f.consume(&taken, func(ctx context.Context) (client.Message, error) {
		f.Do("CLIENT", "KILL", "USER", "producer")
		return f.Pop(ctx, "t")
	})
	calls.Wait()
	until(t, "all have come", func() bool { return taken.total() == ids })
	stop()
	f.Expect(state{Once: slices.Sorted(maps.Keys(taken.counts))})
	for id, n := range taken.counts {
		if n != 1 || counted.count(id) > 1 {
			t.Errorf("job %s came %d times, and %d pushes were told that they counted", id, n, counted.count(id))
		}
	}
}
