package store

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// expectLost expects that every settlement fails.
func (b *backend) expectLost(t *testing.T, held LeaseRef) {
	t.Helper()
	for verb, err := range b.settleAll(t, held) {
		if !errors.Is(err, ErrLeaseLost) {
			t.Errorf("%s: error %v, want that the lease is lost", verb, err)
		}
	}
}

// settleAll tries all settlements.
func (b *backend) settleAll(t *testing.T, held LeaseRef) map[string]error {
	t.Helper()
	errs := map[string]error{}
	for verb := range settlements {
		errs[verb] = b.settleAs(t, verb, held)
	}
	return errs
}

// settlements are the calls of a holder.
var settlements = map[string]func(s *Store, held LeaseRef) *Call[[]error]{
	"ack": func(s *Store, held LeaseRef) *Call[[]error] { return s.Ack([]LeaseRef{held}) },
	"retry": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Delay: time.Minute, Error: "why"}})
	},
	"release": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Refund: true}})
	},
	"release later": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Retry([]Returned{{LeaseRef: held, Refund: true, Delay: time.Minute}})
	},
	"bury": func(s *Store, held LeaseRef) *Call[[]error] { return s.Bury([]Burial{{held, "reason", "error"}}) },
	"extend": func(s *Store, held LeaseRef) *Call[[]error] {
		return s.Extend([]*Extension{{LeaseRef: held, Lease: time.Hour}})
	},
}

func (b *backend) settleAs(t *testing.T, verb string, held LeaseRef) error {
	t.Helper()
	return errorOf(settlements[verb](b.Store, held).Do(t.Context()))
}

// TestSettlements compares the state of Redis after each settlement.
func TestSettlements(t *testing.T) {
	other := texts{"o": "t body of o"}
	with := func(id string) texts { return texts{id: "t body of " + id, "o": "t body of o"} }
	wants := map[string]redistest.State{
		"ack":           {Ready: queues{"t": {"o"}}, Buckets: other},
		"retry":         {Pool: []string{"a"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
		"release":       {Ready: queues{"t": {"a", "o"}}, Buckets: with("a")},
		"release later": {Pool: []string{"a"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
		"bury":          {Ready: queues{"t": {"o"}}, Buckets: other, Dead: queues{"t": {"a"}}, Letters: texts{"a": "t body of a"}},
		"extend":        {Reserved: []string{"a"}, Counts: texts{"t": "1"}, Ready: queues{"t": {"o"}}, Buckets: with("a")},
	}
	attempts := map[string]int{"retry": 1, "release": 0, "release later": 0, "bury": 1, "extend": 1}
	onEach(t, func(t *testing.T, b *backend) {
		for verb, want := range wants {
			t.Run(verb, func(t *testing.T) {
				b.seed(t, ready("a", "t"), ready("o", "t"))
				held, _ := b.hold(t, "t", time.Minute)
				check(t, b.settleAs(t, verb, held))
				b.expect(t, want)
				found, err := b.Get(t.Context(), "a")
				if verb == "ack" {
					if !errors.Is(err, ErrNotFound) {
						t.Errorf("found %+v, %v", found, err)
					}
					return
				}
				if err != nil || found.Attempts != attempts[verb] {
					t.Errorf("%d attempts, want %d; %v", found.Attempts, attempts[verb], err)
				}
				states := map[string]string{"retry": "waiting", "release": "ready", "release later": "waiting", "bury": "dead", "extend": "reserved"}
				errs := map[string]string{"retry": "why", "bury": "error"}
				if found.State != states[verb] || found.Error != errs[verb] || (found.Reason == "reason") != (verb == "bury") {
					t.Errorf("found %+v", found)
				}
			})
		}
	})
}

// Any other change of a reserved job ends the lease, and the holder can't change the job any more.
func TestFencing(t *testing.T) {
	cases := map[string]func(b *backend, t *testing.T, held LeaseRef) error{
		"pushed anew": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{After: time.Minute}, kept, Replace)
		},
		"pushed anew, due at once": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{}, kept, KeepEarlier)
		},
		"pushed anew under another topic": func(b *backend, t *testing.T, _ LeaseRef) error {
			return b.push(t.Context(), Job{ID: "a", Topic: "u", Body: "new"}, Due{After: time.Minute}, kept, Replace)
		},
		"pushed anew by an old client":              func(b *backend, t *testing.T, _ LeaseRef) error { b.pushAsOld(t, "a", "t", 60); return nil },
		"pushed anew by an old client, due at once": func(b *backend, t *testing.T, _ LeaseRef) error { b.pushAsOld(t, "a", "t", 0); return nil },
		"rescheduled":        func(b *backend, t *testing.T, _ LeaseRef) error { return b.Reschedule(t.Context(), "a", time.Minute) },
		"rescheduled to now": func(b *backend, t *testing.T, _ LeaseRef) error { return b.Reschedule(t.Context(), "a", 0) },
		"removed": func(b *backend, t *testing.T, _ LeaseRef) error {
			was, err := b.remove(t.Context(), "a")
			if was != "reserved" {
				t.Errorf("it was %q", was)
			}
			return err
		},
		"reserved by another": func(b *backend, t *testing.T, held LeaseRef) error {
			if err := b.settleAs(t, "release", held); err != nil {
				return err
			}
			b.hold(t, "t", time.Minute)
			return nil
		},
	}
	for verb := range settlements {
		if verb != "extend" {
			cases["settled by "+verb] = func(b *backend, t *testing.T, held LeaseRef) error { return b.settleAs(t, verb, held) }
		}
	}
	onEach(t, func(t *testing.T, b *backend) {
		for name, end := range cases {
			t.Run(name, func(t *testing.T) {
				b.seed(t, ready("a", "t"), field("a", "options", "5 0 604800000"))
				held, _ := b.hold(t, "t", time.Minute)
				check(t, end(b, t, held))
				was, scores := b.state(t), b.scores(t)
				b.expectLost(t, held)
				b.expect(t, was)
				if again := b.scores(t); fmt.Sprint(again) != fmt.Sprint(scores) {
					t.Errorf("scores %v, were %v", again, scores)
				}
				isHeld := name == "reserved by another"
				if kept := len(was.Counts) > 0; kept != isHeld && !strings.Contains(name, "old client") {
					t.Errorf("numbers of reserved jobs %v", was.Counts)
				}
			})
		}
	})
}

// If an old client takes a reserved job through a second queue entry, no settlement recreates the job.
func TestTakenByAnOldClient(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			held, _ := b.hold(t, "t", time.Minute)
			b.do(t, "LPUSH", "delayer:ready_queue:t", "a")
			b.do(t, "RPOP", "delayer:ready_queue:t")
			b.do(t, "DEL", "delayer:job_bucket:a")
			was := b.state(t)
			if err := b.settleAs(t, verb, held); !errors.Is(err, ErrLeaseLost) {
				t.Errorf("%s: %v", verb, err)
			}
			b.expect(t, was)
		}
	})
}

// Two leases of a job may end in the same microsecond, for example if both run towards one deadline. Then only the second holder can
// settle the job.
func TestLeasesOfOneEnd(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			stale, first := b.hold(t, "t", time.Minute)
			check(t, b.settleAs(t, "release", stale))
			held, _ := b.hold(t, "t", time.Hour)
			b.do(t, "ZADD", "delayer:job_pool", unixSeconds(time.UnixMicro(first.End)), "a")
			was := b.state(t)
			b.expectLost(t, stale)
			b.expect(t, was)
			if err := b.settleAs(t, verb, held); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

// If the answer to an extension is lost, the holder can settle with either end.
func TestUnknownExtension(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"))
			held, _ := b.hold(t, "t", time.Minute)
			made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: time.Hour}}))
			if err := b.settleAs(t, verb, held); err != nil { // with the previous end
				t.Errorf("%s: %v", verb, err)
			}
		}
	})
}

// A retry of a job without attempts left makes it a dead letter.
func TestRetryOfTheLastAttempt(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct {
			name           string
			own, consumers int
			dead           bool
		}{{"the job's own", 1, 9, true}, {"the consumer's", 0, 1, true}, {"more are left", 2, 1, false}, {"no limit", 0, 0, false}} {
			b.seed(t, ready("a", "t"))
			if c.own > 0 {
				b.do(t, "HSET", "delayer:job_bucket:a", "options", fmt.Sprintf("%d 0 604800000", c.own))
			}
			held, _ := b.hold(t, "t", time.Minute)
			errs := made(t, b.Retry([]Returned{{LeaseRef: held, Delay: time.Minute, MaxAttempts: c.consumers, Error: "last"}}))
			found, err := b.Get(t.Context(), "a")
			if err != nil || errors.Is(errs[0], ErrExhausted) != c.dead || (found.State == "dead") != c.dead || found.Error != "last" {
				t.Errorf("%s: %v, %+v, %v", c.name, errs, found, err)
			}
		}
	})
}

// If some jobs of a call are lost, each job gets its own result.
func TestSettleSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for verb := range settlements {
			b.seed(t, ready("a", "t"), ready("b", "u"), ready("c", "t"))
			a, _ := b.hold(t, "t", time.Minute)
			u, _ := b.hold(t, "u", time.Minute)
			c, _ := b.hold(t, "t", time.Minute)
			b.remove(t.Context(), "b")
			all := []LeaseRef{a, u, c}
			var call *Call[[]error]
			switch verb {
			case "ack":
				call = b.Ack(all)
			case "bury":
				call = b.Bury([]Burial{{a, "", ""}, {u, "", ""}, {c, "", ""}})
			case "extend":
				call = b.Extend([]*Extension{{LeaseRef: a, Lease: time.Hour}, {LeaseRef: u, Lease: time.Hour}, {LeaseRef: c, Lease: time.Hour}})
			default:
				var list []Returned
				for _, h := range all {
					list = append(list, Returned{LeaseRef: h, Refund: verb != "retry", Delay: map[string]time.Duration{"release": 0}[verb]})
				}
				call = b.Retry(list)
			}
			expectErrors(t, made(t, call), nil, ErrLeaseLost, nil)
			if counts := b.state(t).Counts; (verb == "extend") != (counts["t"] == "2") || counts["u"] != "" {
				t.Errorf("%s: numbers of reserved jobs %v", verb, counts)
			}
		}
	})
}
