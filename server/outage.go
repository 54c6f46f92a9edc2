package server

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// remindAfter is how often an outage that goes on is mentioned again.
const remindAfter = time.Minute

// outages turn errors that repeat into a line when they begin, a reminder each
// minute, and a line when they end.
type outages struct {
	say     func(line string)
	now     func() time.Time
	running map[string]*outage
}

type outage struct {
	what        string
	began, said time.Time
	times       int // since it was last mentioned
}

func newOutages(say func(string)) *outages {
	return &outages{say: say, now: time.Now, running: map[string]*outage{}}
}

// report tells how the thing called key fares: err, or nil when it is well.
// what names it in the log.
func (o *outages) report(key, what string, err error) {
	now, running := o.now(), o.running[key]
	switch {
	case err == nil && running == nil:
	case err == nil:
		delete(o.running, key)
		o.say(fmt.Sprintf("%s: over after %v", running.what, now.Sub(running.began).Round(time.Millisecond)))
	case running == nil:
		o.running[key] = &outage{what: what, began: now, said: now}
		o.say(fmt.Sprintf("%s: %v", what, err))
	default:
		running.times++
		if now.Sub(running.said) >= remindAfter {
			o.say(fmt.Sprintf("%s: still, for %v, %d more times: %v", what, now.Sub(running.began).Round(time.Second), running.times, err))
			running.said, running.times = now, 0
		}
	}
}

// open lists the running outages whose key begins so, without that beginning.
func (o *outages) open(prefix string) []string {
	var rest []string
	for key := range o.running {
		if name, ok := strings.CutPrefix(key, prefix); ok {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	return rest
}
