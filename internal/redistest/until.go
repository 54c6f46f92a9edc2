package redistest

import (
	"testing"
	"time"
)

// HangBound is for what must happen, however slow the machine.
const HangBound = 30 * time.Second

// Until waits for something to become true.
func Until(tb testing.TB, what string, is func() bool) {
	tb.Helper()
	for bound := time.Now().Add(HangBound); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(bound) {
			tb.Fatalf("not within %v: %s", HangBound, what)
		}
	}
}
