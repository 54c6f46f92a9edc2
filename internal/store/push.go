package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

var pushScript = newScript("push")

// IsPush reports whether that is how an EVALSHA names the script of Push, or an EVAL.
func IsPush(script string) bool {
	push := pushScript.plain()
	return script == push.hash || script == push.text
}

// Job is a job's content.
type Job struct {
	ID, Topic, Body string
}

// NewID is a random ID of the original's form: 32 hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Policy is what becomes of an ID that exists when it is pushed again.
type Policy string

// The policies that push.lua knows. The content is replaced under all but Refuse and Once.
const (
	Replace     Policy = "replace" // the new due time
	Refuse      Policy = "refuse"  // nothing changes: ErrExists
	KeepEarlier Policy = "earlier" // the earlier of both due times
	KeepLater   Policy = "later"   // the later of both due times
	Follow      Policy = "follow"  // replaced, but one that is reserved stays, and is followed by the new one when it is done
)

// Once refuses an ID that exists, and any push of it under this policy for so long, whatever becomes of the job.
func Once(window time.Duration) Policy {
	return Policy(fmt.Sprint(oncePolicy, " ", milliseconds(window)))
}

// OnceAs is Once for a push that says what stands in content, in short. Another one that says something else is told so: ErrReused.
func OnceAs(window time.Duration, content string) Policy { return Once(window) + Policy(" "+content) }

// Refuses reports whether a job of that ID keeps the push from being done.
func (p Policy) Refuses() bool { return p == Refuse || strings.HasPrefix(string(p), oncePolicy+" ") }

// Spares reports whether the push leaves a job alone that is reserved.
func (p Policy) Spares() bool { return p == Follow || p.Refuses() }

// Debounce is Replace, but the job falls due so long after the first of these pushes at the latest. When it has been reserved the
// next one is the first.
func Debounce(longest time.Duration) Policy {
	return Policy(fmt.Sprint(debouncePolicy, " ", milliseconds(longest)))
}

// Outcome is what a push did.
type Outcome uint8

// The outcomes of pushes.
const (
	DidNothing Outcome = iota // it failed, or nobody knows
	DidCreate                 // there was no job of that ID
	DidReplace                // there was one, which has the new content and due time
	DidKeep                   // there was one, which has the new content, but its due time counts
	DidRefuse                 // there was one, or there had been: nothing has changed
	DidFollow                 // there was one, reserved, which the new one follows
	DidAdd                    // it was added to a group
)

// Due says when a job falls due: at a time, or, where that is zero, after a
// delay by Redis's clock.
type Due struct {
	After time.Duration
	At    time.Time
}

// arg is the due time as push.lua reads it.
func (d Due) arg() int64 {
	if d.At.IsZero() {
		return -milliseconds(d.After)
	}
	ms := d.At.UnixMilli()
	if d.At.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never early
	}
	return max(ms, 0) // what was due before 1970 is due now
}

// Delayed is a job to be stored.
type Delayed struct {
	Job
	Due Due
	Terms
	Told *Told // is set by a push that is done, unless it is nil, which it must not be of one to a group
}

// IsGrouped reports whether the job is to be added to a group. Its ID is then the group's tag, and, if it counts once, its own behind it.
func (d Delayed) IsGrouped() bool { return d.Group.Longest > 0 }

// Told is what a push tells that is done.
type Told struct {
	Did  Outcome
	Into string // the ID of the job that is the group, if it was pushed to one
}

// Terms are what jobs of one call often have in common.
type Terms struct {
	Lifetime    time.Duration // for how long the job is kept once it is ready
	Policy      Policy
	MaxAttempts int           // 0: as the consumer says
	TTR         time.Duration // how long it is to be reserved; 0: as the consumer says
	Replicas    Replicas      // who is to have it before the push is done
	Group       Group
}

// Push stores jobs in one step: at most 1,000, and no ID twice; or adds them to groups, if one of them is to be added to one all are. For each job the answer is
// what kept it from being stored, nil if nothing did: ErrExists, ErrReused, or an error of Redis; or ErrLater, of all that go to some of
// the groups, but never to the first one. After an error of the call nothing is stored, unless the answer was lost.
func (s *Store) Push(jobs []Delayed) *Call[[]error] { return s.push(jobs, "each") }

// PushAll is Push, but no job is stored if there is an error of Redis for one of them: the others' is ErrOtherFailed then.
func (s *Store) PushAll(jobs []Delayed) *Call[[]error] { return s.push(jobs, pushAll) }

func (s *Store) push(jobs []Delayed, mode string) *Call[[]error] {
	if len(jobs) > 0 && jobs[0].IsGrouped() {
		return s.addToGroups(jobs, mode)
	}
	known := s.recent.cover(jobs)
	args := append(arguments(7+4*len(jobs), s.jobPool), topicsArg(known), mode)
	for rest := jobs; len(rest) > 0; {
		alike := runLength(rest)
		t := rest[0].Terms
		args = append(args, alike, milliseconds(t.Lifetime), string(t.Policy), t.MaxAttempts, milliseconds(t.TTR))
		args = appendJobs(args, rest[:alike])
		rest = rest[alike:]
	}
	return newCall(s, pushScript, args, func(reply any) ([]error, error) {
		errs, err := errorsAt(reply, len(jobs))
		if err != nil {
			return nil, err
		}
		for i, job := range jobs {
			if errs[i] != nil || job.Told != nil {
				errs[i] = job.done(errs[i])
			}
		}
		if mode == pushAll {
			ofAll(errs)
		}
		if !known {
			s.recent.remember(jobs, errs)
		}
		return errs, nil
	})
}

// topicsArg tells the scripts of pushes to register the jobs' topics, unless they are known.
func topicsArg(known bool) string {
	if known {
		return ""
	}
	return registerTopics
}

func appendJobs(args []any, jobs []Delayed) []any {
	for _, job := range jobs {
		args = append(args, job.ID, job.Topic, job.Body, job.Due.arg())
	}
	return args
}

// What push.lua says of jobs that are stored all the same.
var (
	errReplaced = errors.New("it has replaced another")
	errKept     = errors.New("it has replaced another, whose due time counts")
	errFollows  = errors.New("it follows another, which is reserved")
)

// ofAll makes of what became of each job alone what became of it as one of all: where one can't be stored none is.
func ofAll(errs []error) {
	if !slices.ContainsFunc(errs, keepsOthers) {
		return
	}
	for i, err := range errs {
		if err == nil {
			errs[i] = ErrOtherFailed
		}
	}
}

// keepsOthers reports whether a job's error keeps all others of a PushAll from being stored.
func keepsOthers(err error) bool {
	return err != nil && err != ErrLater && !errors.Is(err, ErrExists)
}

// done enters what a push did, and returns its error.
func (d Delayed) done(told error) error {
	did, err := DidNothing, told
	switch told {
	case nil:
		did = DidCreate
	case errReplaced:
		did, err = DidReplace, nil
	case errKept:
		did, err = DidKeep, nil
	case errFollows:
		did, err = DidFollow, nil
	case ErrExists, ErrReused:
		did = DidRefuse
	}
	if d.Told != nil {
		d.Told.Did = did
	}
	return err
}

// runLength is how many of the first jobs have their terms in common.
func runLength(jobs []Delayed) int {
	for i, job := range jobs {
		if job.Terms != jobs[0].Terms {
			return i
		}
	}
	return len(jobs)
}

// AnnouncedWithin is how soon a job must fall due for a push to tell servers of
// it: one that looks at the pool as often hears of all in time.
const AnnouncedWithin = time.Minute
