package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Random operations on a limited topic never lead to more leases than the limit, nor to a slot without a valid lease.
func TestRandomLimit(t *testing.T) {
	b, _ := onRedis(t)
	ctx := t.Context()
	for seed := range uint64(redistest.Rounds(20, 100)) {
		r := rand.New(rand.NewPCG(seed, 1))
		b.seed(t)
		most := 1 + r.IntN(3)
		b.limitTo(t, Limit{Concurrency: most})
		held := map[string]LeaseRef{}
		id := func() string { return fmt.Sprint("j", r.IntN(6)) }
		topic := func() string { return []string{"t", "t", "t", "u"}[r.IntN(4)] }
		var did []string
		for range 40 {
			what := ""
			settle := func(verb string, call func(LeaseRef) *Call[[]error]) { // any lease, as by its holder
				for _, h := range held {
					what = verb + " " + h.ID
					made(t, call(h))
					if verb != "extend" {
						delete(held, h.ID)
					}
					return
				}
			}
			switch i, tp := id(), topic(); r.IntN(15) {
			case 0, 1, 2:
				policy := []Policy{Replace, Follow, Follow, Refuse, KeepEarlier, KeepLater, Once(time.Minute), Debounce(time.Second)}[r.IntN(8)]
				delay := []time.Duration{0, 0, 10 * time.Millisecond, time.Hour}[r.IntN(4)]
				what = fmt.Sprint("push ", i, " ", tp, " ", policy, " ", delay)
				made(t, b.Push([]Delayed{{Job{ID: i, Topic: tp, Body: "b"}, Due{After: delay}, Terms{Lifetime: time.Hour, Policy: policy, MaxAttempts: r.IntN(3)}, nil}}))
			case 3, 4, 5:
				lease := []time.Duration{time.Hour, 15 * time.Millisecond}[r.IntN(2)]
				got := b.reserve(t, 1+r.IntN(3), Reservation{Lease: lease}, tp)
				what = fmt.Sprint("reserve ", tp, " ", lease, " ", len(got.Jobs))
				for i, j := range got.Jobs {
					held[j.ID] = LeaseRef{j.Topic, j.ID, got.Leases[i].Token}
				}
			case 6:
				settle("ack", func(h LeaseRef) *Call[[]error] { return b.Ack([]LeaseRef{h}) })
			case 7:
				settle("retry", func(h LeaseRef) *Call[[]error] {
					return b.Retry([]Returned{{LeaseRef: h, Delay: []time.Duration{0, time.Hour}[r.IntN(2)], Refund: r.IntN(2) == 0, MaxAttempts: r.IntN(3)}})
				})
			case 8:
				settle("bury", func(h LeaseRef) *Call[[]error] { return b.Bury([]Burial{{LeaseRef: h, Reason: "r"}}) })
			case 9:
				what = "remove " + i
				b.remove(ctx, i)
			case 10:
				what = "reschedule " + i
				b.Reschedule(ctx, i, []time.Duration{0, time.Hour}[r.IntN(2)])
			case 11: // never shortened
				settle("extend", func(h LeaseRef) *Call[[]error] {
					return b.Extend([]*Extension{{LeaseRef: h, Lease: 2 * time.Hour}})
				})
			case 12:
				what = "requeue " + i
				b.Requeue(ctx, []string{i}, time.Hour)
			case 13:
				if r.IntN(2) == 0 {
					what = "pause"
					made(t, b.Pause("t", time.Hour, ""))
				} else {
					what = "resume"
					made(t, b.Resume("t", 1))
				}
			case 14:
				what = "due"
				time.Sleep(16 * time.Millisecond)
				b.moveDue(t)
			}
			did = append(did, what)
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
			// Each job is in the pool or in a queue: none is lost.
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
	}
}

// Random operations on a limited topic with waiting clients: if there is a job, a free slot and a waiting client, one client is awake.
func TestRandomWaiters(t *testing.T) {
	b, _ := onRedis(t)
	ctx := t.Context()
	clients := []string{"w0", "w1", "w2"}
	sub, err := b.Subscribe(ctx, time.Minute)
	check(t, err)
	defer sub.Close()
	for _, c := range clients {
		check(t, sub.Add(b.keys.Wake(c)))
	}
	go func() {
		for {
			if _, err := sub.Receive(); err != nil {
				return
			}
		}
	}()
	time.Sleep(200 * time.Millisecond)
	failed := 0
	for seed := range uint64(redistest.Rounds(60, 600)) {
		if failed > 5 {
			break
		}
		r := rand.New(rand.NewPCG(seed, 2))
		b.seed(t)
		most := 1 + r.IntN(2)
		b.limitTo(t, Limit{Concurrency: most})
		paused := false
		held := []LeaseRef{}
		n := 0
		var did []string
		gone := map[string]bool{} // without a caller: it processes its job
		ask := func(c string) {
			gone[c] = false
			got := made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: c}}, Reservation{Lease: time.Hour}))
			for i, j := range got.Jobs {
				held = append(held, LeaseRef{j.Topic, j.ID, got.Leases[i].Token})
			}
			gone[c] = len(got.Jobs) > 0 && r.IntN(3) > 0
			did = append(did, fmt.Sprint(c, " asks, gets ", len(got.Jobs), " held ", got.Throttled))
		}
		stands := func() (all []string) {
			for _, key := range []string{"waiters:t", "throttled_waiters:t", "paused_waiters:t"} {
				if fmt.Sprint(b.do(t, "TYPE", "delayer:"+key)) == "zset" {
					all = append(all, b.With(t).Strings("ZRANGE", "delayer:"+key, 0, -1)...)
				}
			}
			return all
		}
		for _, c := range clients {
			ask(c)
		}
		for range 25 {
			switch op := r.IntN(9); {
			case op < 2:
				var jobs []Delayed
				for range 1 + r.IntN(3) {
					n++
					jobs = append(jobs, Delayed{Job{ID: fmt.Sprint(n), Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, nil})
				}
				did = append(did, fmt.Sprint("push ", len(jobs)))
				made(t, b.Push(jobs))
			case op < 5 && len(held) > 0:
				h := held[0]
				held = held[1:]
				switch r.IntN(4) {
				case 0:
					did = append(did, "release")
					made(t, b.Retry([]Returned{{LeaseRef: h, Refund: true}}))
				case 1:
					did = append(did, "follow, ack")
					check(t, b.push(ctx, Job{ID: h.ID, Topic: "t", Body: "f"}, Due{}, time.Hour, Follow))
					made(t, b.Ack([]LeaseRef{h}))
				case 2:
					did = append(did, "remove")
					b.remove(ctx, h.ID)
				default:
					did = append(did, "ack")
					made(t, b.Ack([]LeaseRef{h}))
				}
			case op == 5:
				did = append(did, "pop")
				b.pop(ctx, []string{"t"})
			case op == 6 && paused:
				did = append(did, "resume")
				check(t, errOf(b.Resume("t", 1).Do(ctx)))
				paused = false
			case op == 6 && r.IntN(3) == 0:
				did = append(did, "pause")
				check(t, errOf(b.Pause("t", time.Hour, "").Do(ctx)))
				paused = true
			case op == 7:
				c := clients[r.IntN(3)]
				if !slices.Contains(stands(), c) {
					ask(c)
				}
			}
			awake := ""
			all := stands()
			for _, c := range clients {
				if !slices.Contains(all, c) && !gone[c] {
					awake = c
				}
			}
			ready := len(b.With(t).Strings("LRANGE", "delayer:ready_queue:t", 0, -1))
			if ready > 0 && !paused && len(held) < most && len(all) > 0 && awake == "" {
				t.Errorf("seed %d: %d jobs, %d of %d slots, and all of %q sleep after %q", seed, ready, len(held), most, all, did)
				failed++
				break
			}
			// A client that is awake polls, or has left; then its wake-up goes to the next one.
			if awake != "" && r.IntN(3) > 0 {
				ask(awake)
			}
		}
	}
}
