package store

import (
	"context"
	"strconv"
	"time"
)

var browseScript = newScript("browse")

// Browse selects jobs to read.
type Browse struct {
	Topic   string   // empty for any, if the state is not ready or dead
	State   string   // waiting, ready, reserved or dead
	Jobs    int      // at most
	Entries int      // to read, at most
	Preview int      // bytes of a body to return; 0 for none
	Whole   bool     // return whole bodies, errors and reasons
	After   Position // the Last of the previous page; zero to begin
	Oldest  bool     // dead letters: the oldest first
	Stale   bool     // dead letters: also entries whose letters are gone, or of another topic
}

// Position is the position of an entry: its score, or the number of entries delivered before it, and its ID.
type Position struct{ At, ID string }

// Summary describes a job, or a dead letter.
type Summary struct {
	ID, Topic string
	At        time.Time // when it is due, its lease ends, or it was buried; zero if it is ready
	Body      string    // its beginning, or all of it with Whole; the same for Error and Reason
	Size      int       // bytes of the whole body; -1 if unknown
	Attempts  int
	Error     string // of the last attempt, if one is known
	Reason    string // why it is dead

	MaxAttempts int           // 0 if the job sets none
	TTR         time.Duration // 0 if the job sets none
	Headers     map[string]string
}

// Page is a page of Browse.
type Page struct {
	Jobs      []Summary
	Positions []Position // of the jobs
	Read      int        // entries
	Last      Position   // the last entry; zero at the end
}

// Browse reads some jobs in order: the next due or next delivered first, and the newest or oldest dead letter first. A page ends early
// after about half a MiB.
func (s *Store) Browse(ctx context.Context, b Browse) (Page, error) {
	list, state, stale := s.keys.ReadyQueue(b.Topic), b.State, ""
	if b.State == stateDead {
		list = s.keys.DeadLetters(b.Topic)
		if b.Oldest {
			state = "oldest"
		}
		if b.Stale {
			b.Topic, stale = "", "stale"
		}
	}
	preview := any(b.Preview)
	if b.Whole {
		preview = "all"
	}
	args := append(arguments(8, s.jobPool, list), b.Topic, b.Jobs, b.Entries, preview, b.After.At, b.After.ID, state, stale)
	return newCall(s, browseScript, args, func(reply any) (Page, error) { return pageOf(b.State, reply) }).Do(ctx)
}

func pageOf(state string, reply any) (page Page, err error) {
	var last []string
	entries, err := scan(reply, &page.Read, &last)
	if err != nil {
		return Page{}, err
	}
	if len(last) == 2 {
		page.Last = Position{last[0], last[1]}
	}
	for _, entry := range entries {
		var j Summary
		var at, headers string
		var ttr int64
		_, err := scan(entry, &j.ID, &at, &j.Topic, &j.Body, &j.Size, &j.Attempts, &j.Error, &j.Reason, &j.MaxAttempts, &ttr, &headers)
		j.TTR, j.Headers = time.Duration(ttr)*time.Millisecond, HeadersOf(headers)
		if err == nil && state != stateReady {
			j.At, err = atTime(state, at)
		}
		if err != nil {
			return Page{}, err
		}
		page.Jobs, page.Positions = append(page.Jobs, j), append(page.Positions, Position{at, j.ID})
	}
	return page, nil
}

// atTime returns the time of an entry's score, which is in ms for a dead letter.
func atTime(state, score string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(score, 64)
	if state == stateDead {
		seconds /= 1000
	}
	return secondsTime(seconds), err
}
