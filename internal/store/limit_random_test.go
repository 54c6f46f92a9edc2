package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
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
		check(l.t, errOf(l.Resume("t", 1).Do(l.ctx)))
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
