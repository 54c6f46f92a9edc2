package batch

import (
	"context"
	"sync"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// waking is a Queue whose Waiting wakes its Sender, as that of a partition does that passes wake-ups on.
type waking struct {
	*Sender
	left int
}

func (q *waking) Waiting() bool {
	if q.left == 0 {
		return false
	}
	q.left--
	q.Wake()
	return true
}

func (q *waking) Next() (int, func(*store.Pipeline, error)) { return 0, nil }

// No more batches are under way than may be, also if a Queue wakes the Sender while it is asked who waits.
func TestMostBatches(t *testing.T) {
	var mu sync.Mutex
	running, resume := new(sync.WaitGroup), make(chan struct{})
	connect := func(context.Context) (*store.Pipeline, error) {
		<-resume
		return nil, store.ErrEmpty
	}
	q := &waking{left: 20}
	q.Sender = NewSender(&Owner{Running: running}, connect, &mu, q, 3)
	mu.Lock()
	q.Wake()
	underWay, leads := q.underWay, q.TryLead()
	mu.Unlock()
	close(resume)
	running.Wait()
	if underWay != 3 || leads {
		t.Errorf("%d batches are under way, and a caller may lead another: %v", underWay, leads)
	}
}
