package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxTakeCalls is how many round trips that take jobs are under way at a time.
	maxTakeCalls = 4
	// maxTogether is how many takes go with one. A large job keeps those behind it waiting.
	maxTogether = 16
)

// takes are the pops and reserves of a partition that callers wait for. While few are under
// way one goes at once. Those that come meanwhile go together, on one connection: a crowd of
// callers does not need one each, whatever their topics.
type takes struct {
	*coalesce.Coalescer
	client *Client
	askers []asker // whose turn comes, in their order; guarded by topics.mu, as all is
}

// asker is who wants jobs for its callers. While it is among the askers, or its take is under
// way, it is not added again.
type asker interface {
	// waiting reports whether anybody waits.
	waiting() bool
	// ask claims the callers, and says what is taken for them; nil is nothing.
	ask() *take
	// rest ends the turn of one for whom nobody waits.
	rest()
}

func newTakes(c *Client, o *coalesce.Owner, s *store.Store) *takes {
	t := &takes{client: c}
	t.Coalescer = coalesce.New(o, s, &c.topics.mu, t, maxTakeCalls)
	return t
}

// add has the asker's turn come.
func (t *takes) add(a asker) {
	t.askers = append(t.askers, a)
	t.Wake()
}

// addAgain is add for one whose take is over, be it that nobody waits now: those who were served
// may come again before its turn does. Whoever has made that take makes the next.
func (t *takes) addAgain(a asker) { t.askers = append(t.askers, a) }

// addOwn is add in a caller's own goroutine. If it returns a func, that has to be called, and
// makes the take.
func (t *takes) addOwn(a asker) (lead func(context.Context)) {
	t.askers = append(t.askers, a)
	if t.MayLead() {
		return t.Lead
	}
	return nil
}

// Waiting reports whether anybody waits.
func (t *takes) Waiting() bool {
	for len(t.askers) > 0 && !t.askers[0].waiting() {
		t.first().rest()
	}
	return len(t.askers) > 0
}

// first takes the first asker off.
func (t *takes) first() asker {
	a := t.askers[0]
	t.askers[0] = nil
	t.askers = t.askers[1:]
	return a
}

// Next takes off the askers who go together: what they want is about what one pop takes at most.
func (t *takes) Next() (callers int, call func(*store.Pipeline, error)) {
	var list []*take
	for jobs := 0; len(t.askers) > 0 && len(list) < maxTogether && jobs < store.MaxPop; {
		if one := t.first().ask(); one != nil {
			list = append(list, one)
			jobs += one.n
			callers += one.callers
		}
	}
	return callers, func(p *store.Pipeline, err error) { t.makeAll(p, err, list) }
}

// makeAll makes the takes. err is why there is no connection.
func (t *takes) makeAll(p *store.Pipeline, err error, list []*take) {
	if err == nil {
		p.WithoutCancel()
		for _, one := range list {
			one.send(p)
		}
	}
	for _, one := range list {
		got, more, failed := taken{}, false, err
		if err == nil {
			got, more, failed = one.receive(t.client)
		}
		t.client.topics.mu.Lock()
		one.end(got, more, failed)
		t.client.topics.mu.Unlock()
	}
}

// take is a pop, or a reserve, of up to n jobs; reserved ones may be limits[i] of topics[i] at
// most.
type take struct {
	kind
	topics  []string
	limits  []int
	n       int
	callers int // for whom it is made
	// end is called with what came of it, with topics.mu held. more reports whether there may be
	// jobs although fewer came than were asked for.
	end func(got taken, more bool, err error)

	asked  time.Time
	answer store.Answer[store.Popped]
}

// send sends the take, whose answer is waited for then whatever becomes of any context: it may
// bring jobs.
func (t *take) send(p *store.Pipeline) {
	if t.reserves {
		t.asked = time.Now()
		t.answer = p.SendReserve(t.topics, t.limits, t.n, t.Reservation)
	} else {
		t.answer = p.SendPop(t.topics, t.n)
	}
}

// receive waits for the answer. It counts the jobs that may be lost with it.
func (t *take) receive(c *Client) (got taken, more bool, err error) {
	popped, err := t.answer.Wait()
	c.tellStale(popped.Stale)
	c.tellPutOff(popped.PutOff)
	if err != nil && !t.reserves && !errors.As(err, new(redis.Error)) {
		c.lost.Add(int64(min(t.n, store.MaxPop)))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return taken{popped.Jobs, popped.Leases, t.asked}, popped.More, err
}

// tellStale counts the IDs, and tells WithStale's function of them. That may fail as it likes: jobs
// are on their way to callers, who must get them.
func (c *Client) tellStale(ids []string) {
	if len(ids) == 0 {
		return
	}
	c.stale.Add(int64(len(ids)))
	if c.onStale == nil {
		return
	}
	done := make(chan struct{})
	go func() { // of its own, as it may end that, too
		defer close(done)
		defer func() {
			if why := recover(); why != nil {
				c.logger.Error("delayer: the function of WithStale has panicked", "panic", why, "stack", string(debug.Stack()))
			}
		}()
		c.onStale(ids)
	}()
	<-done
}
