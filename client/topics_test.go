package client

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// What a queue is believed to have after a pop: what was heard while that was
// under way is newer than its answer.
func TestLearn(t *testing.T) {
	popped := func(n int, more bool) store.Popped { return store.Popped{Jobs: make([]store.Job, n), More: more} }
	for _, c := range []struct {
		name         string
		ready, heard int // after the pop was sent
		delayed      bool
		popped       store.Popped
		err          error
		want         int
	}{
		{name: "as many as were asked for", ready: 5, popped: popped(3, false), want: 2},
		{name: "as many as were believed", ready: 3, popped: popped(3, false), want: 0},
		{name: "fewer than asked for", ready: 3, popped: popped(2, false), want: 0},
		{name: "none", ready: 3, want: 0},
		{name: "stopped early", ready: 0, popped: popped(2, true), want: 1},
		{name: "failed", ready: 3, err: errors.New("cut"), want: 0},
		{name: "heard meanwhile, as many as were asked for", ready: 1, heard: 1, popped: popped(3, false), want: 1},
		{name: "heard meanwhile, none", ready: 1, heard: 1, want: 1},
		{name: "heard meanwhile, failed", ready: 1, heard: 1, err: errors.New("cut"), want: 1},
		{name: "heard meanwhile, a pop will be made soon", ready: 1, heard: 1, delayed: true, want: 0},
	} {
		q := &topicQueue{ready: c.ready, heard: c.heard, delayed: c.delayed}
		if q.learn(len(c.popped.Jobs), c.popped.More, c.err, 3, 0); q.ready != c.want {
			t.Errorf("%s: %d jobs are believed to be there, want %d", c.name, q.ready, c.want)
		}
	}
}

// inHand is a Client of which the test makes the takes, and what the listener does.
func inHand() *Client {
	c := New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errors.New("none") }})
	for c.partitions[0].takes.MayLead() { // until all round trips are under way
	}
	c.partitions[0].listener.running = true
	return c
}

// joined is a caller of BPop.
func (c *Client) joined(t *testing.T, names ...string) (*caller, chan answer) {
	t.Helper()
	answers := make(chan answer, 1)
	who := &caller{request: request{names: names, n: 1, stays: true}, answer: func(a answer) { answers <- a }}
	if lead, err := c.topics.join(who); lead != nil || err != nil {
		t.Fatal(lead != nil, err)
	}
	return who, answers
}

// queueFor is the topic's queue of those who pop, for a test that has the Client in hand.
func (c *Client) queueFor(topic string) *topicQueue {
	return c.topics.queue(topicKey{c.partitions[0], topic}, kind{})
}

// A caller for whom a pop is under way is not ended by another one, be it that
// that fails: it would get a job and not be there.
func TestClaimedCallerIsNotEndedByAnotherPop(t *testing.T) {
	c := inHand()
	tq, uq := c.queueFor("t"), c.queueFor("u")
	for range store.MaxPop {
		c.joined(t, "t")
	}
	tq.callers.Front().Value.(*caller).setAsks(false) // it waits: others ask each queue by itself
	last, answers := c.joined(t, "u", "t")
	popOfT, popOfU := tq.ask(), uq.ask()
	if popOfT.callers != store.MaxPop || popOfU.callers != 1 || !last.claimed {
		t.Fatal(popOfT.callers, popOfU.callers, last.claimed)
	}
	popOfT.end(taken{}, false, redis.Error("WRONGTYPE ready queue t is a string, not a list"))
	if len(answers) > 0 {
		t.Fatalf("it was ended while a pop is under way for it: %v", (<-answers).err)
	}
	popOfU.end(taken{}, false, errors.New("cut"))
	if err := (<-answers).err; err == nil {
		t.Error("it was not told of the error")
	}
}

// Whatever its queues have answered, and in which order: when each of them has, a caller of several
// topics waits. So it is told of an outage, and ends when that has lasted.
func TestEachAnswerCountsOnce(t *testing.T) {
	cut := errors.New("cut")
	for _, events := range [][]string{
		{"ask a", "a", "ask b", "b"}, {"ask a", "ask b", "a", "b"}, {"ask a", "ask b", "b", "a"},
		{"ask b", "b", "ask a", "a"}, {"ask b", "ask a", "b", "a"}, {"ask b", "ask a", "a", "b"},
	} {
		for _, errs := range []map[string]error{{}, {"a": cut}, {"b": cut}, {"a": cut, "b": cut}} {
			t.Run(fmt.Sprint(events, errs), func(t *testing.T) {
				c := inHand()
				queues, takes := map[string]*topicQueue{"a": c.queueFor("a"), "b": c.queueFor("b")}, map[string]*take{}
				waiting, _ := c.joined(t, "a")
				waiting.setAsks(false) // so the other asks each queue by itself
				tested, answers := c.joined(t, "a", "b")
				answer := func(name string, err error) {
					if one := takes[name]; one != nil {
						takes[name] = nil
						one.end(taken{}, false, err)
					}
				}
				for _, event := range events {
					if name, asks := strings.CutPrefix(event, "ask "); asks {
						takes[name] = queues[name].ask()
					} else {
						answer(name, errs[name])
					}
				}
				for queues["a"].waiting() || queues["b"].waiting() { // who was claimed by the other pop
					for name, q := range queues {
						takes[name] = q.ask()
						answer(name, cut)
					}
				}
				if tested.isAsking() || waiting.isAsking() || len(answers) > 0 {
					t.Fatalf("after all answers: %+v, %+v", tested, waiting)
				}
				l := c.partitions[0].listener
				l.report(cut)
				tested.since = tested.since.Add(-rideOut)
				l.report(cut)
				if len(answers) != 1 {
					t.Error("it does not notice the outage")
				}
			})
		}
	}
}

// A look at several topics that comes behind a pop which has claimed its caller asks each of
// them by itself, once that pop is over.
func TestSeveralBehindAPop(t *testing.T) {
	c := inHand()
	takes := c.partitions[0].takes
	c.joined(t, "a")
	several, answers := c.joined(t, "a", "b")
	if len(takes.askers) != 2 {
		t.Fatalf("%d askers, want that of a, and the caller of both", len(takes.askers))
	}
	popOfA := takes.first().ask()
	if one := takes.first().ask(); one != nil || !several.claimed {
		t.Fatalf("%+v is asked for one that is claimed: %v", one, several.claimed)
	}
	popOfA.end(taken{}, false, nil)
	for takes.Waiting() {
		one := takes.first().ask()
		if one == nil {
			continue
		}
		got := taken{}
		if one.topics[0] == "b" {
			got.jobs = []store.Job{{ID: "1", Topic: "b"}}
		}
		one.end(got, false, nil)
	}
	if len(answers) != 1 || (<-answers).jobs[0].ID != "1" {
		t.Error("it did not get the job of the second topic")
	}
}

// Takes that go together are few, and want about as many jobs as one pop takes at most: Redis may
// do without a break what comes in one piece.
func TestTakesTogetherAreBounded(t *testing.T) {
	for _, tt := range []struct {
		wants    []int // of callers who have a topic each
		together []int
	}{
		{slices.Repeat([]int{1}, 2*maxTogether+1), []int{maxTogether, maxTogether, 1}},
		{[]int{store.MaxPop, 1, 1}, []int{1, 2}},
		{[]int{100, 100, 100, 100}, []int{3, 1}},
		{[]int{1, store.MaxPop, 1}, []int{2, 1}},
	} {
		c := inHand()
		for i, n := range tt.wants {
			who := &caller{request: request{names: []string{fmt.Sprint(i)}, n: n, stays: true}, answer: func(answer) {}}
			if lead, err := c.topics.join(who); lead != nil || err != nil {
				t.Fatal(lead != nil, err)
			}
		}
		var got []int
		for takes := c.partitions[0].takes; takes.Waiting(); {
			callers, _ := takes.Next()
			got = append(got, callers)
		}
		if !slices.Equal(got, tt.together) {
			t.Errorf("%v: %v go together, want %v", tt.wants, got, tt.together)
		}
	}
}
