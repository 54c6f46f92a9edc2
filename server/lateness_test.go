package server

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A Lateness has the same numbers as the one it was made from.
func TestLateness(t *testing.T) {
	inside := store.Lateness{Sum: 1.5}
	for i := range inside.Counts {
		inside.Counts[i] = int64(i + 1)
	}
	l := Lateness(inside)
	if l.Jobs() != inside.Jobs() || l.Plus(l) != Lateness(inside.Plus(inside)) {
		t.Errorf("%d jobs, twice is %+v", l.Jobs(), l.Plus(l))
	}
	for _, q := range []float64{0, 0.3, 0.99, 1} {
		if l.Quantile(q) != inside.Quantile(q) {
			t.Errorf("quantile %v is %v", q, l.Quantile(q))
		}
	}
	if (Lateness{}).Quantile(1) != 0 || LatenessBounds[0] != time.Millisecond || len(l.Counts) != len(LatenessBounds)+1 {
		t.Error("the zero value or the bounds are wrong")
	}
}
