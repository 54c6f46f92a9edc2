package store

import (
	"context"
	"strconv"
	"time"
)

var (
	browsePoolScript  = newScript("browse_pool")
	browseReadyScript = newScript("browse_ready")
	browseDeadScript  = newScript("browse_dead")
)

// Browse says which jobs to look at.
type Browse struct {
	Topic   string // empty for any, if the state is not ready or dead
	State   string // waiting, ready, reserved or dead
	Jobs    int    // at most
	Entries int    // to look at, at most
	Preview int    // bytes of a body that are told, at most; 0: nothing is told of bodies
	After   Place  // the last one of the look before; zero for none
	Oldest  bool   // of dead ones, the oldest first
	Stale   bool   // of dead ones, also entries whose letters are gone, or another topic's
}

// Place is where an entry is: its score, or how many others are to be delivered before it; and its ID.
type Place struct{ At, ID string }

// Sight is what Browse says of a job.
type Sight struct {
	ID, Topic string
	At        time.Time // when it is due, its lease ends, or it was buried; zero if it is ready
	Body      string    // its beginning
	Size      int       // bytes of the whole body; -1 if not known
	Attempts  int
	Error     string // of the last attempt, if one is known: its beginning
	Reason    string // why it is dead: its beginning
}

// Look is what Browse has looked at.
type Look struct {
	Jobs   []Sight
	Looked int   // entries
	Last   Place // of them; zero if there are no more
}

// Browse looks at some jobs, in order: the next to fall due or to be delivered first, and of the
// dead ones the newest, or the oldest.
func (s *Store) Browse(ctx context.Context, b Browse) (Look, error) {
	k := s.keys
	script, keys := browsePoolScript, []string{k.JobPool()}
	further := []any{b.State}
	switch b.State {
	case "ready":
		script, keys, further = browseReadyScript, append(keys, k.ReadyQueue(b.Topic)), nil
	case "dead":
		script, keys = browseDeadScript, []string{k.DeadTopics(), k.DeadLetters(b.Topic)}
		further = []any{"", ""}
		if b.Oldest {
			further[0] = "oldest"
		}
		if b.Stale {
			b.Topic, further[1] = "", "stale"
		}
	}
	args := append(arguments(8, keys...), b.Topic, b.Jobs, b.Entries, b.Preview, b.After.At, b.After.ID)
	return newCall(s, script, append(args, further...), func(reply any) (Look, error) { return lookOf(b.State, reply) }).Do(ctx)
}

func lookOf(state string, reply any) (look Look, err error) {
	var last []string
	entries, err := scan(reply, &look.Looked, &last)
	if err != nil {
		return Look{}, err
	}
	if len(last) == 2 {
		look.Last = Place{last[0], last[1]}
	}
	for _, entry := range entries {
		var j Sight
		var at string
		_, err := scan(entry, &j.ID, &at, &j.Topic, &j.Body, &j.Size, &j.Attempts, &j.Error, &j.Reason)
		if err == nil && state != "ready" {
			j.At, err = atTime(state, at)
		}
		if err != nil {
			return Look{}, err
		}
		look.Jobs = append(look.Jobs, j)
	}
	return look, nil
}

// atTime is the time that an entry's score stands for: of a dead letter that is in ms.
func atTime(state, score string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(score, 64)
	if state == "dead" {
		seconds /= 1000
	}
	return secondsTime(seconds), err
}
