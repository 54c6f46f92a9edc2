package wait

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// If one node does not answer, jobs of the others are still delivered. A caller that finds no job there gets
// the error.
func TestOneNodeAway(t *testing.T) {
	for _, topics := range [][]string{{"t"}, {"t", "u"}} {
		for _, has := range []bool{true, false} {
			h := inHands(t, 1, 1)
			g := h.joins(Request{Topics: topics, N: 1})
			ready := map[readyQueue]int{}
			if has {
				ready[readyQueue{h.s, "t"}] = 1
			}
			for range 3 {
				if one := h.asksOf(h.nodes[1]); one != nil {
					h.answer(one, store.Popped{}, errCut)
				}
				for _, s := range h.probesOf(h.nodes[1]) {
					h.finds(s, false, nil, errCut)
				}
				away := h.nodes[1]
				h.nodes = h.nodes[:1]
				h.run(ready)
				h.nodes = append(h.nodes, away)
			}
			if has {
				g.expectJob(t, "t1")
			} else {
				g.expectErr(t, errCut)
			}
		}
	}
}

// A node that did not answer is polled last for a while, so that callers do not wait for it while others have jobs. Then it is
// tried again. Once it answers, it takes its normal turn.
func TestNodeThatIsAwayIsPolledLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHands(t, 1, 1, 2)
		away := h.nodes[1]
		firsts := func(calls int) (ofAway int) {
			for range calls {
				g := h.joins(Request{Topics: []string{"t"}, N: 1})
				asked := g.pending[0].queue.partition.node
				if asked == away {
					ofAway++
				}
				h.answer(h.asksOf(asked), store.Popped{Jobs: jobs("t", 1)}, nil)
				g.expectJob(t, "t1")
			}
			return ofAway
		}
		fails := func(asFirst bool) {
			for (h.partitions[h.turn%4].node == away) != asFirst {
				firsts(1)
			}
			g := h.joins(Request{Topics: []string{"t"}, N: 1})
			if asFirst {
				h.answer(h.asksOf(away), store.Popped{}, errCut)
			} else {
				h.answer(h.asksOf(g.pending[0].queue.partition.node), store.Popped{}, nil)
				h.finds(h.probesOf(away)[0], false, nil, errCut)
			}
			h.run(map[readyQueue]int{})
			g.expectErr(t, errCut)
		}
		for _, asFirst := range []bool{true, false} {
			fails(asFirst)
			if n := firsts(40); n != 0 {
				t.Errorf("it is asked first by %d of 40", n)
			}
			time.Sleep(shunFor)
			if n := firsts(40); n != 10 {
				t.Errorf("some time later it is asked first by %d of 40", n)
			}
			fails(asFirst)
			g := h.joins(Request{Topics: []string{"t"}, N: 1})
			h.run(map[readyQueue]int{})
			g.expectErr(t, store.ErrEmpty)
			if n := firsts(40); n != 10 {
				t.Errorf("once it has answered it is asked first by %d of 40", n)
			}
		}
	})
}

// A waiting caller tolerates the loss of one node for any time. It gets the error when all nodes are down or when its time
// is over.
func TestWaitingWhileANodeIsAway(t *testing.T) {
	h := inHands(t, 1, 1)
	g := h.waiter("t")
	h.run(map[readyQueue]int{})
	away := func(n *node) {
		n.listener.report(errCut)
		g.failing = time.Now().Add(-2 * RetryWindow)
		n.listener.report(errCut)
	}
	away(h.nodes[0])
	g.expectWaits(t)
	h.check(true, nil)
	if g.lastErr != nil {
		t.Error("it knows of an outage that is over")
	}
	away(h.nodes[1])
	g.expectWaits(t)
	h.check(true, nil) // on the other node
	if g.lastErr == nil {
		t.Error("it does not know of the node that is away")
	}
	away(h.nodes[0])
	g.expectErr(t, errCut)
}
