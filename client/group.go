package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/store"
)

// Group is a [PushOption] that delivers pushes of the same topic and key together, as one job. Its body is the JSON array of their
// bodies, in the order of the pushes, up to 1 MiB; each body must be JSON in UTF-8. If no group is waiting, because it was
// delivered or removed, a push begins the next one. The latest push sets the options for the whole job: the
// group's and JobOptions. A group is delivered as soon as Max, Quiet or Longest applies; Quiet or Longest must be set.
//
// The group has an ID of its own, which Push returns, and is a job like any other for consumers and operators. It
// can be read at any time. Each push writes the whole body again, so large groups of many small bodies cost more
// than their size: see docs/go.md.
//
// The push has no delay, no time, and of the policies of IfExists only Once or OnceAs. Only with
// these may it have an ID: then one push of that ID to the topic and key is accepted within the window, so that it
// can be repeated after a lost reply; a refused one returns that ID and ErrExists. Without an ID, a repeated push may
// be in the group twice. Remove does not free such an ID.
type Group struct {
	// Key tells groups of a topic apart, in 1 to 256 bytes.
	Key string
	// Max delivers the group when it has that many bodies; 0 means as many as fit into 1 MiB.
	Max int
	// Quiet delivers the group when nothing was pushed to it for that long, up to 100 years; 0 means that this does
	// not matter.
	Quiet time.Duration
	// Longest delivers the group that long after its first push, up to 100 years; 0 means as long.
	Longest time.Duration
}

func (g Group) apply(o *pushOptions) { o.group = &g }

func (g *Group) check(m Message) error {
	switch {
	case g.Key == "":
		return invalid("group key", "it is empty")
	case g.Max < 0 || g.Max > math.MaxInt32:
		return invalid("group max", fmt.Sprintf("%d is not from 0 to %d", g.Max, math.MaxInt32))
	case len(m.Body) > store.MaxGroup-len("[]"):
		return invalid("body", fmt.Sprintf("%d bytes do not fit into a group, which has %d at most", len(m.Body), store.MaxGroup))
	case !isElement(m.Body):
		return invalid("body", "it is not JSON, of which a group's must be")
	}
	return cmp.Or(checkSize("group key", g.Key, store.MaxGroupKey), checkIfSet("group quiet", g.Quiet), checkIfSet("group longest", g.Longest))
}

func checkIfSet(field string, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return checkLength(field, d, store.MaxDelay)
}

// deepest is how deeply encoding/json allows JSON to be nested.
const deepest = 10_000

// isElement reports whether a body is JSON, and would still be inside an array.
func isElement(body string) bool {
	return utf8.ValidString(body) && json.Valid([]byte(body)) && (len(body) < deepest || json.Valid([]byte("["+body+"]")))
}

func (g *Group) job(m Message, terms store.Terms) store.Delayed {
	terms.Group = store.Group{Max: g.Max, Longest: g.Longest}
	if g.Longest == 0 {
		terms.Group.Longest = store.MaxDelay
	}
	due := store.Due{After: g.Quiet}
	if g.Quiet == 0 {
		due.After = g.Longest
	}
	m.ID = store.GroupTag(m.Topic, g.Key) + m.ID
	return store.Delayed{Job: store.Job(m), Due: due, Terms: terms, Told: new(store.Told)}
}
