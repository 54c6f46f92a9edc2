package client_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
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
	var calls sync.WaitGroup
	var counted [ids]atomic.Int32
	for range pushers {
		calls.Go(func() {
			for i := range ids {
				m := client.Message{ID: fmt.Sprint(i), Topic: "t", Body: "b"}
				for done := false; !done; {
					id, err := c.Push(t.Context(), m, 0, client.Once(time.Hour))
					switch {
					case err == nil:
						counted[i].Add(1)
						done = true
					case errors.Is(err, client.ErrExists):
						done = true
						if id != m.ID {
							t.Errorf("refused %q, want %q", id, m.ID)
						}
					}
				}
			}
		})
	}
	pushed, end := context.WithCancel(t.Context())
	var taken [ids]int
	var takes sync.WaitGroup
	takes.Go(func() {
		for pushed.Err() == nil {
			f.Do("CLIENT", "KILL", "USER", "producer")
			if m, err := f.Pop(t.Context(), "t"); err == nil {
				var i int
				fmt.Sscan(m.ID, &i)
				taken[i]++
			}
		}
	})
	calls.Wait()
	end()
	takes.Wait()
	for {
		m, err := f.Pop(t.Context(), "t")
		if err != nil {
			break
		}
		var i int
		fmt.Sscan(m.ID, &i)
		taken[i]++
	}
	for i := range ids {
		if taken[i] != 1 || counted[i].Load() > 1 {
			t.Errorf("job %d came %d times, and %d pushes were told that they counted", i, taken[i], counted[i].Load())
		}
	}
}
