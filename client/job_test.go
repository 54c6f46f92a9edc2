package client_test

import (
	"strings"
	"testing"
)

func TestErrorsNameOperationAndJob(t *testing.T) {
	f := start(t)
	_, err := f.Get(t.Context(), "order-1")
	if want := `delayer: get "order-1": no such job`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	f.push("a", "t")
	expectText(t, "Requeue of a job that is ready", f.Requeue(t.Context(), "a"), "no such dead letter")
	_, err = f.BPop(t.Context(), 1, "z", "a", "a")
	if want := `delayer: bpop "z, a, a": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want %q in front", err, want)
	}
}
