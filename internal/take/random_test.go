package take

import (
	"context"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// Who has left while a take was under way does not have Redis asked again and again while that is away.
func TestWhoHasLeftDoesNotAsk(t *testing.T) {
	h := inHand(t)
	first := h.waiter("t")
	one := h.asks()
	second := h.waiter("t")
	h.leave(second.caller, context.Canceled)
	h.answer(one, store.Popped{}, errCut)
	if next := h.asks(); next != nil {
		t.Error("it is asked again at once")
	}
	first.expectWaits(t)
	second.expectErr(t, context.Canceled)
}

// A take that had no room for jobs of its last topic has learned nothing of that.
func TestTopicThatATakeDidNotReach(t *testing.T) {
	h := inHand(t)
	first := h.waiter("y", "z")
	h.settle()
	h.s.ear.wake("z", 1)
	claims := h.asks()
	h.s.ear.wake("y", 1) // all its callers are claimed
	if one := h.asks(); one != nil {
		t.Fatal("it is asked for nobody")
	}
	second := h.waiter("x", "y")
	h.answer(h.asks(), store.Popped{Jobs: jobs("x", 1)}, nil)
	second.expectJob(t, "x1")
	h.answer(claims, store.Popped{Entered: true}, nil)
	one := h.asks()
	if one == nil || !slices.Equal(one.topics(), []string{"y"}) {
		t.Fatal("nobody asks for the job of y")
	}
	h.answer(one, store.Popped{Jobs: jobs("y", 1)}, nil)
	first.expectJob(t, "y1")
}
