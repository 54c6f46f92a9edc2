package store

import (
	"errors"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var groupScript = newScript("group")

// Group determines when jobs pushed to a group are delivered together. The zero value is no group.
type Group struct {
	Max     int           // maximum number of jobs; 0: any number
	Longest time.Duration // maximum time after the first push
}

// inTag separates the parts of a group's tag, and keeps the tag from ending early.
var inTag = strings.NewReplacer("%", "%25", ":", "%3A", "}", "%7D")

// GroupTag returns the common beginning of the IDs of all groups of the topic and key. The tag puts them into one partition.
func GroupTag(topic, key string) string {
	return "{" + inTag.Replace(topic) + ":" + inTag.Replace(key) + "}"
}

// Tag returns the tag of the job's group.
func (d Delayed) Tag() string { return d.ID[:strings.IndexByte(d.ID, '}')+1] }

// StoredID returns the ID of the job that was stored, or the job's own ID.
func (d Delayed) StoredID() string {
	switch {
	case !d.IsGrouped():
		return d.ID
	case d.Told.Into != "":
		return d.Told.Into
	}
	return d.ID[len(d.Tag()):]
}

// addToGroups is Push for jobs that are all added to groups. An ID may occur twice.
func (s *Store) addToGroups(jobs []Delayed, mode string) *Call[[]error] {
	known := s.recent.cover(jobs)
	args := append(arguments(8+4*len(jobs), s.jobPool), !known, mode)
	for rest := jobs; len(rest) > 0; {
		alike := runLength(rest)
		t := &rest[0].Terms
		args = append(args, alike, milliseconds(t.Lifetime), string(Debounce(t.Group.Longest)), t.options(), string(t.Policy), t.Group.Max)
		args = appendJobs(args, rest[:alike])
		rest = rest[alike:]
	}
	return newCall(s, groupScript, args, func(reply any) ([]error, error) {
		told, err := redis.Values(reply, nil)
		if err != nil || len(told) != 2*len(jobs) {
			return nil, errors.Join(err, errUnreadable)
		}
		errs := make([]error, len(jobs))
		for i, job := range jobs {
			if errs[i], err = job.joined(told[2*i], told[2*i+1]); err != nil {
				return nil, err
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

// joined stores the outcome of a push to a group, and returns its error.
func (d Delayed) joined(what, into any) (failed, err error) {
	if d.Told.Into, err = redis.String(into, nil); err != nil {
		return nil, err
	}
	switch what := what.(type) {
	case []byte:
		return redis.Error(what), nil
	case int64:
		if outcome, known := groupOutcomes[what]; known {
			d.Told.Did = outcome.did
			return outcome.err, nil
		}
	}
	return nil, errUnreadable
}

// The outcomes of group.lua.
var groupOutcomes = map[int64]struct {
	did Outcome
	err error
}{
	toldExists: {DidRefuse, ErrExists}, toldReused: {DidRefuse, ErrReused}, toldLater: {DidNothing, ErrLater},
	toldCreated: {DidCreate, nil}, toldAdded: {DidAdd, nil},
}
