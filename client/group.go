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

// GroupOptions says when a group is delivered: with the first of these that comes about. Quiet or Longest must be set.
type GroupOptions struct {
	// Max is how many bodies it has then; 0 for as many as fit into MaxGroup.
	Max int
	// Quiet is for how long nothing was pushed to it, up to MaxDelay; 0 if that doesn't matter.
	Quiet time.Duration
	// Longest is how old its first push is, up to MaxDelay; 0 for MaxDelay.
	Longest time.Duration
}

// MaxGroup is how long a group's body is at most, in bytes. A push for which there is no more room has the group delivered, and
// begins the next one.
const MaxGroup = store.MaxGroup

// MaxGroupKey is how long a group's key is at most, in bytes.
const MaxGroupKey = 256 // which leaves room for a topic in the ID

// Group has pushes of one topic and key delivered together, as one job. Its body is the JSON array of their bodies, in the order of the
// pushes; each must be JSON, in UTF-8. A push that finds no group waiting, as it was delivered, or removed, begins the next one. What
// else the latest push says counts for the whole job: the options of the group, MaxAttempts, TTR, ReadyMaxLifetime.
//
// The group has an ID of its own, which Push returns, and is a job like any other to all who take or manage it. It can be read at
// any time. A push writes the whole body anew, so large groups of many small bodies cost more than their length: see docs/go.md.
//
// The push has no delay, no time, and none of the options about its ID but Once and OnceAs (see [Replace]). It has an ID with these only: then a push of that ID to the topic and key counts
// once within the window, so that it can be made again after a lost answer. If it does not count it returns that ID and ErrExists. Without
// it a push that is made again may stand in the group twice. Remove does not free such an ID.
func Group(key string, options GroupOptions) PushOption {
	return func(o *pushOptions) { o.group = &group{key, options} }
}

type group struct {
	key string
	GroupOptions
}

// check says what is wrong with a push to the group.
func (g *group) check(m Message) error {
	switch {
	case g.key == "":
		return invalid("group key", "it is empty")
	case g.Max < 0 || g.Max > math.MaxInt32:
		return invalid("group max", fmt.Sprintf("%d is not from 0 to %d", g.Max, math.MaxInt32))
	case len(m.Body) > MaxGroup-len("[]"):
		return invalid("body", fmt.Sprintf("%d bytes do not fit into a group, which has %d at most", len(m.Body), MaxGroup))
	case !isElement(m.Body):
		return invalid("body", "it is not JSON, of which a group's must be")
	}
	return cmp.Or(checkSize("group key", g.key, MaxGroupKey), checkIfSet("group quiet", g.Quiet), checkIfSet("group longest", g.Longest))
}

func checkIfSet(field string, d time.Duration) error {
	if d == 0 {
		return nil
	}
	return checkLength(field, d, MaxDelay)
}

// deepest is how deep JSON may be nested for encoding/json.
const deepest = 10_000

// isElement reports whether a body is JSON, and an array of it would be.
func isElement(body string) bool {
	return utf8.ValidString(body) && json.Valid([]byte(body)) && (len(body) < deepest || json.Valid([]byte("["+body+"]")))
}

// job is the message as the store takes it.
func (g *group) job(m Message, terms store.Terms) store.Delayed {
	terms.Group = store.Group{Max: g.Max, Longest: g.Longest}
	if g.Longest == 0 {
		terms.Group.Longest = MaxDelay
	}
	due := store.Due{After: g.Quiet}
	if g.Quiet == 0 {
		due.After = g.Longest
	}
	m.ID = store.GroupTag(m.Topic, g.key) + m.ID
	return store.Delayed{Job: store.Job(m), Due: due, Terms: terms, Told: new(store.Told)}
}
