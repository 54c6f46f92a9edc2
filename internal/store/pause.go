package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	pauseScript      = newScript("pause")
	resumeScript     = newScript("resume")
	pausedScript     = newScript("paused")
	keepPausedScript = newScript("keep_paused")
)

// Pause says of a topic that nothing of it is delivered. Times are by Redis's clock.
type Pause struct {
	Topic string
	// Since is since when an operator has paused it, zero if none has; and Until, until when, zero if that is without end.
	Since, Until time.Time
	Note         string // the operator's
	// BackedOffSince and BackedOffUntil are since when, and until when, consumers back off; zero if they don't.
	BackedOffSince, BackedOffUntil time.Time
}

// End is when it ends by itself, zero if it doesn't.
func (p Pause) End() time.Time {
	if !p.Since.IsZero() && p.Until.IsZero() || p.Until.After(p.BackedOffUntil) {
		return p.Until
	}
	return p.BackedOffUntil
}

// add adds what another partition has of the same topic: the longest counts.
func (p *Pause) add(other Pause) {
	switch {
	case p.Since.IsZero():
		p.Since, p.Until, p.Note = other.Since, other.Until, other.Note
	case !other.Since.IsZero():
		if other.Since.Before(p.Since) {
			p.Since = other.Since
		}
		if p.Until.IsZero() || other.Until.IsZero() {
			p.Until = time.Time{}
		} else if other.Until.After(p.Until) {
			p.Until = other.Until
		}
		p.Note = cmp.Or(p.Note, other.Note)
	}
	if p.BackedOffSince.IsZero() || !other.BackedOffSince.IsZero() && other.BackedOffSince.Before(p.BackedOffSince) {
		p.BackedOffSince = other.BackedOffSince
	}
	if other.BackedOffUntil.After(p.BackedOffUntil) {
		p.BackedOffUntil = other.BackedOffUntil
	}
}

// Pause pauses the topic, for so long, or, if that is 0, until it is resumed. Of one that is paused it changes the end and the note.
func (s *Store) Pause(topic string, d time.Duration, note string) *Call[struct{}] {
	return s.pause(topic, pauseTopic, milliseconds(d), note)
}

// BackOff has nothing of the topic be delivered for so long from now on. It shortens no pause.
func (s *Store) BackOff(topic string, d time.Duration) *Call[struct{}] {
	return s.pause(topic, backOff, milliseconds(d), "")
}

// copyPause enters another partition's pause, if there is none.
func (s *Store) copyPause(p Pause) *Call[struct{}] {
	entry := fmt.Sprintf("%d %d %d %d %s", unixMilli(p.Since), unixMilli(p.Until), unixMilli(p.BackedOffSince), unixMilli(p.BackedOffUntil), p.Note)
	return s.pause(p.Topic, copyPause, 0, entry)
}

func (s *Store) pause(topic, how string, ms int64, note string) *Call[struct{}] {
	return newCall(s, pauseScript, append(arguments(4, s.jobPool), topic, how, ms, note), unread)
}

// Resumed is what came of a step of Resume.
type Resumed struct {
	More      bool // the topic stays paused until another step has been made
	WasPaused bool
}

// Resume takes a step towards the topic being delivered again, whatever paused it; share is how many partitions do so together.
func (s *Store) Resume(topic string, share int) *Call[Resumed] {
	args := append(arguments(2, s.jobPool), topic, max(pauseEntries/share, 1))
	return newCall(s, resumeScript, args, func(reply any) (r Resumed, err error) {
		_, err = scan(reply, &r.More, &r.WasPaused)
		return r, err
	})
}

// pausedPage is some topics that are paused.
type pausedPage struct {
	next   string // page; "0" if this was the last
	pauses []Pause
}

// Paused are the topics that are paused.
func (s *Store) Paused(ctx context.Context) ([]Pause, error) { return Partitions{s}.Paused(ctx) }

// pausedFrom is a page of them: that at "0", or at the next of another page.
func (s *Store) pausedFrom(at string) *Call[pausedPage] {
	return newCall(s, pausedScript, append(arguments(1, s.jobPool), at), func(reply any) (page pausedPage, err error) {
		rest, err := scan(reply, &page.next)
		if err == nil {
			page.pauses, err = pausedOf(rest)
		}
		return page, err
	})
}

func pausedOf(list []any) (all []Pause, err error) {
	for err == nil && len(list) > 0 {
		var p Pause
		var since, until, backedOff, backsOn int64
		if list, err = redis.Scan(list, &p.Topic, &since, &until, &backedOff, &backsOn, &p.Note); err == nil {
			p.Since, p.Until, p.BackedOffSince, p.BackedOffUntil = milliTime(since), milliTime(until), milliTime(backedOff), milliTime(backsOn)
			all = append(all, p)
		}
	}
	return all, err
}

// milliTime is zero for 0.
func milliTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

const (
	// pauseTopics and pauseEntries are how many paused topics one script looks after, about, and how many entries of their queues it moves at
	// most: about a millisecond of Redis's time each.
	pauseTopics, pauseEntries = 200, 1000
	// pausesAtOnce is how many partitions are asked together about pauses. What one script may do is divided among them.
	pausesAtOnce = 8
)

// KeptPaused is what came of a step of KeepPaused.
type KeptPaused struct {
	Next   string        // where the next step goes on; "" if there is none
	Again  bool          // that is where this one was: it had more to move
	Paused int           // topics that are, of all
	Wait   time.Duration // until the first of these pauses ends; below 0 if none does by itself
	Ended  []string      // topics whose pause is over, and was ended
}

// KeepPaused takes a step: it ends pauses that are over, and sets aside what somebody who doesn't know of the others has made ready. The first
// step is at "0". Any number of servers may do that.
func (s *Store) KeepPaused(at string, share int) *Call[KeptPaused] {
	args := append(arguments(3, s.jobPool), at, max(pauseTopics/share, 1), max(pauseEntries/share, 1))
	return newCall(s, keepPausedScript, args, func(reply any) (k KeptPaused, err error) {
		var wait int64
		rest, err := scan(reply, &k.Next, &k.Paused, &wait)
		k.Wait, k.Again = time.Duration(wait)*time.Millisecond, k.Next == at
		if err == nil {
			k.Ended, err = redis.Strings(rest, nil)
		}
		return k, err
	})
}

// KeepPaused takes a step in each of the partitions, from where the last one has ended; answered is told of each.
func KeepPaused(ctx context.Context, of []*Store, at []string, answered func(i int, kept KeptPaused, err error)) {
	share := min(len(of), pausesAtOnce)
	call := func(i int) *Call[KeptPaused] { return of[i].KeepPaused(at[i], share) }
	InTurn(ctx, of, pausesAtOnce, call, func(i int, kept KeptPaused, err error) bool {
		answered(i, kept, err)
		return true
	})
}

// SomePaused tells which of the partitions, whose Node is the same, have paused topics: one command, unless some have or they are
// in several slots. Where that can't be told nothing could be done about them.
func SomePaused(ctx context.Context, on []*Store) ([]bool, error) {
	some := make([]bool, len(on))
	var commands [][]any
	all := []any{"EXISTS"}
	for _, s := range on {
		commands, all = append(commands, []any{"EXISTS", s.keys.Paused()}), append(all, s.keys.Paused())
	}
	if len(on) > 1 && !on[0].InCluster() {
		replies, err := on[0].together(ctx, [][]any{all})
		if err != nil || replies[0] == int64(0) {
			return some, err
		}
	}
	replies, err := on[0].together(ctx, commands)
	for i, reply := range replies {
		n, _ := reply.(int64)
		some[i] = n > 0
	}
	return some, err
}

// Pause pauses the topic in all partitions, see Store.Pause. An error is of those in which it is not paused; in the others it is. To do it
// again finishes that.
func (p Partitions) Pause(ctx context.Context, topic string, d time.Duration, note string) error {
	return everywhere(ctx, p, "paused", func(i int) *Call[struct{}] { return p[i].Pause(topic, d, note) }, once[struct{}])
}

// BackOff backs off in all partitions, see Store.BackOff.
func (p Partitions) BackOff(ctx context.Context, topic string, d time.Duration) error {
	return everywhere(ctx, p, "backed off", func(i int) *Call[struct{}] { return p[i].BackOff(topic, d) }, once[struct{}])
}

// Resume resumes the topic in all partitions, and tells whether it was paused in any.
func (p Partitions) Resume(ctx context.Context, topic string) (wasPaused bool, err error) {
	step := func(i int) *Call[Resumed] { return p[i].Resume(topic, min(len(p), pausesAtOnce)) }
	err = everywhere(ctx, p, "resumed", step, func(_ int, r Resumed) (more bool) {
		wasPaused = wasPaused || r.WasPaused
		return r.More
	})
	return wasPaused, err
}

// Paused are the topics that are paused in any partition, by name.
func (p Partitions) Paused(ctx context.Context) ([]Pause, error) {
	var all []Pause
	at := slices.Repeat([]string{"0"}, len(p))
	err := everywhere(ctx, p, "asked", func(i int) *Call[pausedPage] { return p[i].pausedFrom(at[i]) }, func(i int, page pausedPage) (more bool) {
		all, at[i] = append(all, page.pauses...), page.next
		return page.next != "0"
	})
	return JoinPauses(all), err
}

// JoinPauses are the partitions' pauses, each topic's as one, by name.
func JoinPauses(parts []Pause) (all []Pause) {
	slices.SortStableFunc(parts, func(a, b Pause) int { return strings.Compare(a.Topic, b.Topic) })
	for _, p := range parts {
		if last := len(all) - 1; last >= 0 && all[last].Topic == p.Topic {
			all[last].add(p)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// CopyPauses pauses topics, which are paused in some partitions, in those that have come to be since. All of that is done again at no harm.
func (p Partitions) CopyPauses(ctx context.Context) error {
	paused, err := p.Paused(ctx)
	for _, one := range paused {
		if err == nil {
			err = everywhere(ctx, p, "paused", func(i int) *Call[struct{}] { return p[i].copyPause(one) }, once[struct{}])
		}
	}
	return err
}

// once is what everywhere makes a single call with.
func once[T any](int, T) (more bool) { return false }

// everywhere makes calls in each partition until answered says that there is no more, whatever becomes of the others.
func everywhere[T any](ctx context.Context, p Partitions, done string, call func(i int) *Call[T], answered func(i int, answer T) (more bool)) error {
	var errs []error
	var list []int
	for i := range p {
		list = append(list, i)
	}
	for len(list) > 0 {
		var again []int
		stores := make([]*Store, len(list))
		for k, i := range list {
			stores[k] = p[i]
		}
		InTurn(ctx, stores, pausesAtOnce, func(k int) *Call[T] { return call(list[k]) }, func(k int, answer T, err error) bool {
			if i := list[k]; err != nil {
				errs = append(errs, p.named(i, err))
			} else if answered(i, answer) {
				again = append(again, i)
			}
			return true
		})
		list = again
	}
	if len(errs) == 0 {
		return nil
	}
	if len(p) == 1 {
		return errs[0]
	}
	return fmt.Errorf("%s in %d of %d partitions; to do it again does the rest: %w", done, len(p)-len(errs), len(p), errors.Join(errs[:min(len(errs), 3)]...))
}
