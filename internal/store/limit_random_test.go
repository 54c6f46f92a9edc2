package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// limitedLife makes random calls on topics t, which is limited, and u.
type limitedLife struct {
	*backend
	*rand.Rand
	t    *testing.T
	ctx  context.Context
	held map[string]LeaseRef
}

// step makes a call, and names it.
func (l *limitedLife) step() (what string) {
	t, ctx := l.t, l.ctx
	switch i, tp := fmt.Sprint("j", l.IntN(6)), []string{"t", "t", "t", "u"}[l.IntN(4)]; l.IntN(15) {
	case 0, 1, 2:
		policy := []Policy{Replace, Follow, Follow, Refuse, KeepEarlier, KeepLater, Once(time.Minute), Debounce(time.Second)}[l.IntN(8)]
		delay := []time.Duration{0, 0, 10 * time.Millisecond, time.Hour}[l.IntN(4)]
		what = fmt.Sprint("push ", i, " ", tp, " ", policy, " ", delay)
		made(t, l.Push([]Delayed{{Job{ID: i, Topic: tp, Body: "b"}, Due{After: delay}, Terms{Lifetime: time.Hour, Policy: policy, MaxAttempts: l.IntN(3)}, nil}}))
	case 3, 4, 5:
		lease := []time.Duration{time.Hour, 15 * time.Millisecond}[l.IntN(2)]
		got := l.reserve(t, 1+l.IntN(3), Reservation{Lease: lease}, tp)
		what = fmt.Sprint("reserve ", tp, " ", lease, " ", len(got.Jobs))
		for i, j := range got.Jobs {
			l.held[j.ID] = LeaseRef{j.Topic, j.ID, got.Leases[i].Token}
		}
	case 6, 7, 8, 11:
		what = l.settleOne()
	case 9:
		what = "remove " + i
		l.remove(ctx, i)
	case 10:
		what = "reschedule " + i
		l.Reschedule(ctx, i, []time.Duration{0, time.Hour}[l.IntN(2)])
	case 12:
		what = "requeue " + i
		l.Requeue(ctx, []string{i}, time.Hour)
	case 13:
		if l.IntN(2) == 0 {
			what = "pause"
			made(t, l.Pause("t", time.Hour, ""))
		} else {
			what = "resume"
			made(t, l.Resume("t", 1))
		}
	case 14:
		what = "due"
		time.Sleep(16 * time.Millisecond)
		l.moveDue(t)
	}
	return what
}

// settleOne settles any lease, as by its holder.
func (l *limitedLife) settleOne() (what string) {
	t := l.t
	settle := func(verb string, call func(LeaseRef) *Call[[]error]) {
		for _, h := range l.held {
			what = verb + " " + h.ID
			made(t, call(h))
			if verb != "extend" {
				delete(l.held, h.ID)
			}
			return
		}
	}
	switch l.IntN(4) {
	case 0:
		settle("ack", func(h LeaseRef) *Call[[]error] { return l.Ack([]LeaseRef{h}) })
	case 1:
		settle("retry", func(h LeaseRef) *Call[[]error] {
			return l.Retry([]Returned{{LeaseRef: h, Delay: []time.Duration{0, time.Hour}[l.IntN(2)], Refund: l.IntN(2) == 0, MaxAttempts: l.IntN(3)}})
		})
	case 2:
		settle("bury", func(h LeaseRef) *Call[[]error] { return l.Bury([]Burial{{LeaseRef: h, Reason: "r"}}) })
	case 3: // never shortened
		settle("extend", func(h LeaseRef) *Call[[]error] {
			return l.Extend([]*Extension{{LeaseRef: h, Lease: 2 * time.Hour}})
		})
	}
	return what
}

// expectSlots checks that no more leases than the limit are there, and that each has a slot.
func (b *backend) expectSlots(t *testing.T, seed uint64, most int, did []string) {
	t.Helper()
	now := b.clock(t)
	leases := map[string]bool{}
	list := b.With(t).Strings("ZRANGE", "delayer:job_pool", 0, -1, "WITHSCORES")
	for i := 0; i < len(list); i += 2 {
		score, _ := strconv.ParseFloat(list[i+1], 64)
		us := int64(score*1e6 + 0.5)
		if us%1000 != 0 && score > now && fmt.Sprintf("%s", b.do(t, "HGET", "delayer:job_bucket:"+list[i], "topic")) == "t" {
			leases[list[i]] = true
		}
	}
	if len(leases) > most {
		t.Fatalf("seed %d: %d leases of %d after %q", seed, len(leases), most, did)
	}
	slots := b.With(t).Strings("ZRANGE", "delayer:slots:t", 0, -1, "WITHSCORES")
	for i := 0; i < len(slots); i += 2 {
		score, _ := strconv.ParseFloat(slots[i+1], 64)
		if score/1e6 > now+0.02 && !leases[slots[i]] {
			t.Fatalf("seed %d: %s has a slot and no lease after %q", seed, slots[i], did)
		}
	}
	for lease := range leases {
		if b.do(t, "ZSCORE", "delayer:slots:t", lease) == nil {
			t.Fatalf("seed %d: %s has a lease and no slot after %q", seed, lease, did)
		}
	}
}

// expectNoneLost checks that each job is in the pool or in a queue.
func (b *backend) expectNoneLost(t *testing.T, seed uint64, did []string) {
	t.Helper()
	for _, key := range b.With(t).Strings("KEYS", "delayer:job_bucket:*") {
		i := key[len(b.Prefix+"job_bucket:"):]
		tp := fmt.Sprintf("%s", b.do(t, "HGET", key, "topic"))
		in := b.do(t, "ZSCORE", "delayer:job_pool", i) != nil
		for _, q := range []string{"ready_queue:", "paused_queue:"} {
			in = in || b.do(t, "LPOS", "delayer:"+q+tp, i) != nil
		}
		if !in {
			t.Fatalf("seed %d: %s of %s is in no state after %q", seed, i, tp, did)
		}
	}
	if n := b.do(t, "HGET", "delayer:reserved", "t"); n == nil {
		t.Fatalf("seed %d: the number of reserved jobs is gone after %q", seed, did)
	}
}

// Random operations on a limited topic never lead to more leases than the limit, nor to a slot without a valid lease.
func TestRandomLimit(t *testing.T) {
	b, _ := onRedis(t)
	for seed := range uint64(redistest.Rounds(20, 100)) {
		l := &limitedLife{b, rand.New(rand.NewPCG(seed, 1)), t, t.Context(), map[string]LeaseRef{}}
		b.seed(t)
		most := 1 + l.IntN(3)
		b.limitTo(t, Limit{Concurrency: most})
		var did []string
		for range 40 {
			did = append(did, l.step())
			b.expectSlots(t, seed, most, did)
			b.expectNoneLost(t, seed, did)
		}
	}
}
