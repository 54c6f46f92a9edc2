package conformance

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// line is a row of the table: a script or promise, and its trial.
type line struct {
	name string
	try  func(s *stage)
}

// maxReason is the maximum length of an error in a row, in bytes.
const maxReason = 300

// table runs the trials and returns the table.
func (r *run) table(title string, lines []line) string {
	width := len(title)
	for _, l := range lines {
		width = max(width, len(l.name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-*s  works\n", width, title)
	count := map[string]int{}
	for _, l := range lines {
		if r.interrupted.Err() != nil {
			r.t.Fatal("interrupted")
		}
		works, why := r.verdict(l)
		count[works]++
		fmt.Fprintf(&b, "%-*s  %s%s\n", width, l.name, works, why)
	}
	fmt.Fprintf(&b, "%-*s  %d yes, %d no, %d not applicable\n", width, "", count[yes], count[no], count[notApplicable])
	return b.String()
}

// Results of a trial:
const yes, no, notApplicable = "yes", "no", "not applicable"

// verdict runs a trial and returns why it failed or is not applicable.
func (r *run) verdict(l line) (works, why string) {
	w := &witness{}
	skipped := false
	passed := r.t.Run(l.name, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(r.interrupted, patience)
		defer cancel()
		w.TB, w.ctx = t, ctx
		defer func() {
			if why := recover(); why != nil {
				w.Errorf("panic: %v", why)
			}
			skipped = t.Skipped()
		}()
		l.try(r.newStage(w))
	})
	why = ": " + w.why()
	switch {
	case !passed:
		if len(why) > maxReason {
			why = strings.ToValidUTF8(why[:maxReason], "") + "…"
		}
		return no, why
	case skipped:
		return notApplicable, why
	}
	return yes, ""
}
