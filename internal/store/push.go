package store

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

var pushScript = newScript("push")

// IsPush reports whether an EVALSHA, or an EVAL, runs the script of Push.
func IsPush(script string) bool {
	push := pushScript.plain()
	return script == push.hash || script == push.text
}

// Job is a job's content.
type Job struct {
	ID, Topic, Body string
	Headers         map[string]string // as read; a push has them in its Terms
}

// NewID returns a random ID of the original's form: 32 hexadecimal digits.
func NewID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// Policy decides the outcome of a push whose ID exists.
type Policy string

// The policies of push.lua. All but Refuse and Once replace the content. Only Replace replaces a job of another topic: under the others but
// Refuse and Once, such a job stays, and the push gets ErrOtherTopic.
const (
	Default     Policy = ""        // the new due time
	Replace     Policy = "replace" // the same
	Refuse      Policy = "refuse"  // nothing changes: ErrExists
	KeepEarlier Policy = "earlier" // the earlier of both due times
	KeepLater   Policy = "later"   // the later of both due times
	Follow      Policy = "follow"  // replaced; but a reserved job stays, and the new one follows it
)

// Once refuses an ID that exists, and any push of it under this policy for this time, whatever happens to the job.
func Once(window time.Duration) Policy {
	return Policy(fmt.Sprint(oncePolicy, " ", milliseconds(window)))
}

// OnceAs is Once with a fingerprint: a push with another one gets ErrReused.
func OnceAs(window time.Duration, content string) Policy { return Once(window) + Policy(" "+content) }

// Debounce is Replace, but the job is due this long after the first of these pushes at the latest. After a reserve the next push is the first.
func Debounce(longest time.Duration) Policy {
	return Policy(fmt.Sprint(debouncePolicy, " ", milliseconds(longest)))
}

// Outcome is the result of a push.
type Outcome uint8

// The outcomes of pushes.
const (
	DidNothing Outcome = iota // the push failed, or its outcome is unknown
	DidCreate                 // there was no job of that ID
	DidReplace                // the job has the new content and due time
	DidKeep                   // the job has the new content, and keeps its due time
	DidRefuse                 // the ID exists, maybe in another topic, or has counted: nothing has changed
	DidFollow                 // the job is reserved, and the new one follows it
	DidAdd                    // it was added to a group
)

// Due is when a job falls due: at a time, or, if that is zero, after a delay by Redis's clock.
type Due struct {
	After time.Duration
	At    time.Time
}

// arg returns the due time as push.lua reads it.
func (d Due) arg() int64 {
	if d.At.IsZero() {
		return -milliseconds(d.After)
	}
	ms := d.At.UnixMilli()
	if d.At.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never early
	}
	return max(ms, 0) // jobs due before 1970 are due now
}

// Delayed is a job to be stored.
type Delayed struct {
	Job
	Due Due
	Terms
	Told *Told // set by a push unless it is nil; a push to a group needs it
}

// IsGrouped reports whether the job is added to a group. Its ID is then the group's tag, followed by its own ID if it counts once.
func (d Delayed) IsGrouped() bool { return d.Group.Longest > 0 }

// Told receives the outcome of a push.
type Told struct {
	Did  Outcome
	Into string // the ID of the group's job, for a push to a group
}

// Terms are options that the jobs of one call often share.
type Terms struct {
	Lifetime    time.Duration // lifetime of the job once it is ready
	Policy      Policy
	MaxAttempts int           // 0: as the consumer says
	TTR         time.Duration // length of its leases; 0: as the consumer says
	Headers     string        // see HeadersText; may be empty
	Replicas    Replicas      // replicas that must have the job before the push is done
	Group       Group
}

// options returns the field options of the job's bucket, which is missing if it is empty: see parts/lease.lua.
func (t *Terms) options() string {
	if t.MaxAttempts == 0 && t.TTR == 0 && t.Lifetime == DefaultLifetime && t.Headers == "" {
		return ""
	}
	return t.text()
}

func (t *Terms) text() string {
	text := fmt.Sprintf("%d %d %d", t.MaxAttempts, milliseconds(t.TTR), milliseconds(t.Lifetime))
	if t.Headers != "" {
		text += " " + t.Headers
	}
	return text
}

// Push stores up to 1,000 jobs, no ID twice, in one step, or adds them to groups: either all of them or none belong to groups. Each job
// has its own error: ErrExists, ErrReused, ErrOtherTopic, an error of Redis, or ErrLater for all pushes to some of the groups, never to the first one.
// After an error of the call nothing is stored, unless the reply was lost.
func (s *Store) Push(jobs []Delayed) *Call[[]error] { return s.push(jobs, "each") }

// PushAll is Push, but stores no job if Redis refuses one of them: the error of the others is then ErrOtherFailed.
func (s *Store) PushAll(jobs []Delayed) *Call[[]error] { return s.push(jobs, pushAll) }

func (s *Store) push(jobs []Delayed, mode string) *Call[[]error] {
	if len(jobs) > 0 && jobs[0].IsGrouped() {
		return s.addToGroups(jobs, mode)
	}
	known := s.recent.cover(jobs)
	args := append(arguments(6+4*len(jobs), s.jobPool), !known, mode)
	for rest := jobs; len(rest) > 0; {
		alike := runLength(rest)
		t := &rest[0].Terms
		args = append(args, alike, milliseconds(t.Lifetime), string(t.Policy), t.options())
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

func appendJobs(args []any, jobs []Delayed) []any {
	for _, job := range jobs {
		args = append(args, job.ID, job.Topic, job.Body, job.Due.arg())
	}
	return args
}

// Outcomes of push.lua for jobs that are stored.
var (
	errReplaced = errors.New("it has replaced another")
	errKept     = errors.New("it has replaced another, whose due time counts")
	errFollows  = errors.New("it follows another, which is reserved")
)

// ofAll converts the errors of single jobs to those of a PushAll: if one can't be stored, none is.
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

// keepsOthers reports whether a job's error prevents the others of a PushAll from being stored.
func keepsOthers(err error) bool {
	return err != nil && err != ErrLater && !errors.Is(err, ErrExists) && !errors.Is(err, ErrOtherTopic)
}

// done stores the outcome of a push, and returns its error.
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
	if other, is := told.(OtherTopic); is {
		other.Pushed = d.Topic
		did, err = DidRefuse, other
	}
	if d.Told != nil {
		d.Told.Did = did
	}
	return err
}

// runLength returns the number of first jobs with the same terms.
func runLength(jobs []Delayed) int {
	for i, job := range jobs {
		if job.Terms != jobs[0].Terms {
			return i
		}
	}
	return len(jobs)
}

// AnnouncedWithin is the longest delay that a push announces: servers read the pool at least that often.
const AnnouncedWithin = time.Minute
