package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var randomWaiters = []string{"w0", "w1", "w2"}

// waitingLife makes random calls on a limited topic with waiting clients.
type waitingLife struct {
	*backend
	*rand.Rand
	t      *testing.T
	ctx    context.Context
	most   int
	n      int // pushed jobs
	held   []LeaseRef
	paused bool
	gone   map[string]bool // without a caller: it processes its job
	did    []string
}

// ask makes a client reserve, or wait.
func (l *waitingLife) ask(c string) {
	l.gone[c] = false
	got := made(l.t, l.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: c}}, Reservation{Lease: time.Hour}))
	for i, j := range got.Jobs {
		l.held = append(l.held, LeaseRef{j.Topic, j.ID, got.Leases[i].Token})
	}
	l.gone[c] = len(got.Jobs) > 0 && l.IntN(3) > 0
	l.did = append(l.did, fmt.Sprint(c, " asks, gets ", len(got.Jobs), " held ", got.Throttled))
}

// stands returns the clients that wait.
func (l *waitingLife) stands() (all []string) {
	for _, key := range []string{"waiters:t", "throttled_waiters:t", "paused_waiters:t"} {
		if fmt.Sprint(l.do(l.t, "TYPE", "delayer:"+key)) == "zset" {
			all = append(all, l.With(l.t).Strings("ZRANGE", "delayer:"+key, 0, -1)...)
		}
	}
	return all
}

// step makes a call.
func (l *waitingLife) step() {
	switch op := l.IntN(9); {
	case op < 2:
		var jobs []Delayed
		for range 1 + l.IntN(3) {
			l.n++
			jobs = append(jobs, aJob(fmt.Sprint(l.n), "t", 0))
		}
		l.did = append(l.did, fmt.Sprint("push ", len(jobs)))
		made(l.t, l.Push(jobs))
	case op < 5 && len(l.held) > 0:
		h := l.held[0]
		l.held = l.held[1:]
		switch l.IntN(4) {
		case 0:
			l.did = append(l.did, "release")
			made(l.t, l.Retry([]Returned{{LeaseRef: h, Refund: true}}))
		case 1:
			l.did = append(l.did, "follow, ack")
			check(l.t, l.push(l.ctx, Job{ID: h.ID, Topic: "t", Body: "f"}, Due{}, time.Hour, Follow))
			made(l.t, l.Ack([]LeaseRef{h}))
		case 2:
			l.did = append(l.did, "remove")
			l.remove(l.ctx, h.ID)
		default:
			l.did = append(l.did, "ack")
			made(l.t, l.Ack([]LeaseRef{h}))
		}
	case op == 5:
		l.did = append(l.did, "pop")
		l.pop(l.ctx, []string{"t"})
	case op == 6 && l.paused:
		l.did = append(l.did, "resume")
		check(l.t, errOf(l.Resume("t").Do(l.ctx)))
		l.paused = false
	case op == 6 && l.IntN(3) == 0:
		l.did = append(l.did, "pause")
		check(l.t, errOf(l.Pause("t", time.Hour, "").Do(l.ctx)))
		l.paused = true
	case op == 7:
		c := randomWaiters[l.IntN(3)]
		if !slices.Contains(l.stands(), c) {
			l.ask(c)
		}
	}
}

// awake returns a client that is awake. It reports whether all sleep though there is a job, a free slot and a waiting client.
func (l *waitingLife) awake(seed uint64) (awake string, asleep bool) {
	all := l.stands()
	for _, c := range randomWaiters {
		if !slices.Contains(all, c) && !l.gone[c] {
			awake = c
		}
	}
	ready := len(l.With(l.t).Strings("LRANGE", "delayer:ready_queue:t", 0, -1))
	asleep = ready > 0 && !l.paused && len(l.held) < l.most && len(all) > 0 && awake == ""
	if asleep {
		l.t.Errorf("seed %d: %d jobs, %d of %d slots, and all of %q sleep after %q", seed, ready, len(l.held), l.most, all, l.did)
	}
	return awake, asleep
}

// wakesOf makes the random waiters hear their wake-ups.
func (b *backend) wakesOf(t *testing.T) {
	t.Helper()
	channels := make([]string, len(randomWaiters))
	for i, c := range randomWaiters {
		channels[i] = b.keys.Wake(c)
	}
	sub := b.subscribed(t, time.Minute, channels...)
	for _, channel := range channels {
		expectEvents(t, sub, heard(channel))
	}
	go func() {
		for {
			if _, err := sub.Receive(); err != nil {
				return
			}
		}
	}()
}

// Random operations on a limited topic with waiting clients: if there is a job, a free slot and a waiting client, one client is awake.
func TestRandomWaiters(t *testing.T) {
	b, _ := onRedis(t)
	b.wakesOf(t)
	failed := 0
	for seed := range uint64(redistest.Rounds(60, 600)) {
		r := rand.New(rand.NewPCG(seed, 2))
		b.seed(t)
		l := &waitingLife{backend: b, Rand: r, t: t, ctx: t.Context(), most: 1 + r.IntN(2), gone: map[string]bool{}}
		b.limitTo(t, Limit{Concurrency: l.most})
		for _, c := range randomWaiters {
			l.ask(c)
		}
		for range 25 {
			l.step()
			awake, asleep := l.awake(seed)
			if asleep {
				if failed++; failed > 5 {
					return
				}
				break
			}
			// A client that is awake polls, or has left; then its wake-up goes to the next one.
			if awake != "" && r.IntN(3) > 0 {
				l.ask(awake)
			}
		}
	}
}
