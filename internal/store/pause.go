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
	return s.pause(topic, "pause", milliseconds(d), note)
}

// BackOff has nothing of the topic be delivered for so long from now on. It shortens no pause.
func (s *Store) BackOff(topic string, d time.Duration) *Call[struct{}] {
	return s.pause(topic, "back off", milliseconds(d), "")
}

// copyPause enters another partition's pause, if there is none.
func (s *Store) copyPause(p Pause) *Call[struct{}] {
	entry := fmt.Sprintf("%d %d %d %d %s", unixMilli(p.Since), unixMilli(p.Until), unixMilli(p.BackedOffSince), unixMilli(p.BackedOffUntil), p.Note)
	return s.pause(p.Topic, "copy", 0, entry)
}

func (s *Store) pause(topic, how string, ms int64, note string) *Call[struct{}] {
	return newCall(s, pauseScript, append(arguments(4, s.keys.JobPool()), topic, how, ms, note), unread)
}

// Resume has the topic be delivered again, whatever paused it, and tells whether it was.
func (s *Store) Resume(topic string) *Call[bool] {
	args := append(arguments(1, s.keys.JobPool()), topic)
	return newCall(s, resumeScript, args, func(reply any) (bool, error) { return redis.Bool(reply, nil) })
}

// Paused are the topics that are paused.
func (s *Store) Paused() *Call[[]Pause] {
	return newCall(s, pausedScript, arguments(0, s.keys.JobPool()), pausedOf)
}

func pausedOf(reply any) (all []Pause, err error) {
	list, err := redis.Values(reply, nil)
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

// KeptPaused is what came of a KeepPaused.
type KeptPaused struct {
	Paused int           // topics that are
	Wait   time.Duration // until the first pause ends; below 0 if none does by itself
	Ended  []string      // topics whose pause is over, and was ended
}

// KeepPaused ends the pauses that are over, and sets aside what somebody who doesn't know of the others has made ready. Any number of
// servers may do that.
func (s *Store) KeepPaused() *Call[KeptPaused] {
	return newCall(s, keepPausedScript, arguments(0, s.keys.JobPool()), func(reply any) (k KeptPaused, err error) {
		var wait int64
		rest, err := scan(reply, &k.Paused, &wait)
		k.Wait = time.Duration(wait) * time.Millisecond
		if err == nil {
			k.Ended, err = redis.Strings(rest, nil)
		}
		return k, err
	})
}

// KeepPaused makes a KeepPaused in each of the partitions; answered is told of each.
func KeepPaused(ctx context.Context, of []*Store, answered func(i int, kept KeptPaused, err error)) {
	InTurn(ctx, of, pausesAtOnce, func(i int) *Call[KeptPaused] { return of[i].KeepPaused() }, func(i int, kept KeptPaused, err error) bool {
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
	if len(on) > 1 && !on[0].isInCluster() {
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

// pausesAtOnce is how many partitions are asked together about pauses.
const pausesAtOnce = 64

// Pause pauses the topic in all partitions, see Store.Pause. An error is of those in which it is not paused; in the others it is. To do it
// again finishes that.
func (p Partitions) Pause(ctx context.Context, topic string, d time.Duration, note string) error {
	return everywhere(ctx, p, "paused", func(s *Store) *Call[struct{}] { return s.Pause(topic, d, note) }, nil)
}

// BackOff backs off in all partitions, see Store.BackOff.
func (p Partitions) BackOff(ctx context.Context, topic string, d time.Duration) error {
	return everywhere(ctx, p, "backed off", func(s *Store) *Call[struct{}] { return s.BackOff(topic, d) }, nil)
}

// Resume resumes the topic in all partitions, and tells whether it was paused in any.
func (p Partitions) Resume(ctx context.Context, topic string) (wasPaused bool, err error) {
	err = everywhere(ctx, p, "resumed", func(s *Store) *Call[bool] { return s.Resume(topic) }, func(_ int, was bool) { wasPaused = wasPaused || was })
	return wasPaused, err
}

// Paused are the topics that are paused in any partition, by name.
func (p Partitions) Paused(ctx context.Context) ([]Pause, error) {
	var all []Pause
	err := everywhere(ctx, p, "asked", (*Store).Paused, func(_ int, some []Pause) { all = append(all, some...) })
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
			err = everywhere(ctx, p, "paused", func(s *Store) *Call[struct{}] { return s.copyPause(one) }, nil)
		}
	}
	return err
}

// everywhere makes a call in each partition, whatever becomes of the others.
func everywhere[T any](ctx context.Context, p Partitions, done string, call func(*Store) *Call[T], answered func(i int, answer T)) error {
	var errs []error
	InTurn(ctx, p, pausesAtOnce, func(i int) *Call[T] { return call(p[i]) }, func(i int, answer T, err error) bool {
		if err != nil {
			errs = append(errs, p.named(i, err))
		} else if answered != nil {
			answered(i, answer)
		}
		return true
	})
	if len(errs) == 0 {
		return nil
	}
	if len(p) == 1 {
		return errs[0]
	}
	return fmt.Errorf("%s in %d of %d partitions; to do it again does the rest: %w", done, len(p)-len(errs), len(p), errors.Join(errs[:min(len(errs), 3)]...))
}
