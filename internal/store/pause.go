package store

import (
	"cmp"
	"context"
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

// Pause describes a paused topic. Times are by Redis's clock.
type Pause struct {
	Topic string
	// Since and Until are the operator's pause: Since is zero without one, Until if it has no end.
	Since, Until time.Time
	Note         string // the operator's
	// ThrottledSince and ThrottledUntil are the consumers' throttling; zero if there is none.
	ThrottledSince, ThrottledUntil time.Time
}

// End returns when the pause ends by itself, zero if it does not.
func (p Pause) End() time.Time {
	if !p.Since.IsZero() && p.Until.IsZero() || p.Until.After(p.ThrottledUntil) {
		return p.Until
	}
	return p.ThrottledUntil
}

// add merges another pause of the topic: the later end counts.
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
	if p.ThrottledSince.IsZero() || !other.ThrottledSince.IsZero() && other.ThrottledSince.Before(p.ThrottledSince) {
		p.ThrottledSince = other.ThrottledSince
	}
	if other.ThrottledUntil.After(p.ThrottledUntil) {
		p.ThrottledUntil = other.ThrottledUntil
	}
}

// Pause pauses the topic for this time, or, if it is 0, until it is resumed. If the topic is paused already, the end and the note change.
func (s *Store) Pause(topic string, d time.Duration, note string) *Call[struct{}] {
	return s.pause(topic, pauseTopic, milliseconds(d), note)
}

// PauseAnew is Pause, but returns false and changes nothing if an operator has paused the topic with another end or note.
func (s *Store) PauseAnew(topic string, d time.Duration, note string) *Call[bool] {
	args := append(arguments(4, s.jobPool), topic, newPause, milliseconds(d), note)
	return newCall(s, pauseScript, args, func(reply any) (bool, error) { return redis.Bool(reply, nil) })
}

// Throttle stops the delivery of the topic for this time. It shortens no pause.
func (s *Store) Throttle(topic string, d time.Duration) *Call[struct{}] {
	return s.pause(topic, throttle, milliseconds(d), "")
}

func (s *Store) pause(topic, how string, ms int64, note string) *Call[struct{}] {
	return newCall(s, pauseScript, append(arguments(4, s.jobPool), topic, how, ms, note), unread)
}

// Resumed is the result of a step of Resume.
type Resumed struct {
	More      bool // the topic stays paused until another step
	WasPaused bool
}

// Resume takes a step to end all pauses of the topic.
func (s *Store) Resume(topic string) *Call[Resumed] {
	args := append(arguments(2, s.jobPool), topic, pauseEntries)
	return newCall(s, resumeScript, args, func(reply any) (r Resumed, err error) {
		_, err = scan(reply, &r.More, &r.WasPaused)
		return r, err
	})
}

// PausedPage is a page of the paused topics.
type PausedPage struct {
	Next   string // the next page; "0" at the end
	Pauses []Pause
}

// Paused returns all paused topics.
func (s *Store) Paused(ctx context.Context) (all []Pause, err error) {
	page := PausedPage{Next: "0"}
	for again := true; again && err == nil; again = page.Next != "0" {
		page, err = s.PausedFrom(page.Next).Do(ctx)
		all = append(all, page.Pauses...)
	}
	return JoinPauses(all), err
}

// PausedFrom reads the page at "0", or at the Next of another page.
func (s *Store) PausedFrom(at string) *Call[PausedPage] {
	return newCall(s, pausedScript, append(arguments(1, s.jobPool), at), func(reply any) (page PausedPage, err error) {
		rest, err := scan(reply, &page.Next)
		if err == nil {
			page.Pauses, err = pausedOf(rest)
		}
		return page, err
	})
}

func pausedOf(list []any) (all []Pause, err error) {
	for err == nil && len(list) > 0 {
		var p Pause
		var since, until, throttledSince, throttledUntil int64
		if list, err = redis.Scan(list, &p.Topic, &since, &until, &throttledSince, &throttledUntil, &p.Note); err == nil {
			p.Since, p.Until, p.ThrottledSince, p.ThrottledUntil = milliTime(since), milliTime(until), milliTime(throttledSince), milliTime(throttledUntil)
			all = append(all, p)
		}
	}
	return all, err
}

// milliTime converts Unix ms; 0 becomes the zero time.
func milliTime(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

const (
	// pauseTopics is the approximate number of paused topics per script, pauseEntries the maximum number of entries that it moves: each
	// takes about a millisecond of Redis's time.
	pauseTopics, pauseEntries = 200, 1000
)

// KeptPaused is the result of a step of KeepPaused.
type KeptPaused struct {
	Next   string        // start of the next step; "" at the end
	Again  bool          // Next is the same page, which has more to move
	Paused int           // number of paused topics
	Wait   time.Duration // until the first of these pauses ends; below 0 if none does
	Ended  []string      // topics whose pause was over and has been ended
}

// KeepPaused takes a step: it ends pauses that are over, and parks jobs that programs without pauses have made ready. The first step
// starts at "0". Any number of servers may call it.
func (s *Store) KeepPaused(at string) *Call[KeptPaused] {
	args := append(arguments(3, s.jobPool), at, pauseTopics, pauseEntries)
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

// JoinPauses sorts pauses by topic and merges those of the same topic.
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
