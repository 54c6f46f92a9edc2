package store

import (
	"context"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
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
	args := []any{b.Topic, b.Jobs, b.Entries, b.Preview, b.After.At, b.After.ID}
	var reply any
	var err error
	switch b.State {
	case "ready":
		reply, err = s.one(ctx, browseReadyScript, []string{s.keys.JobPool(), s.keys.ReadyQueue(b.Topic)}, args...)
	case "dead":
		order, entries := "", ""
		if b.Oldest {
			order = "oldest"
		}
		if b.Stale {
			args[0], entries = "", "stale"
		}
		args = append(args, order, entries)
		reply, err = s.one(ctx, browseDeadScript, []string{s.keys.DeadTopics(), s.keys.DeadLetters(b.Topic)}, args...)
	default:
		reply, err = s.one(ctx, browsePoolScript, []string{s.keys.JobPool()}, append(args, b.State)...)
	}
	if err != nil {
		return Look{}, err
	}
	return lookOf(b.State, reply)
}

func lookOf(state string, reply any) (Look, error) {
	var look Look
	var last []string
	list, _ := reply.([]any)
	entries, err := redis.Scan(list, &look.Looked, &last)
	if err != nil {
		return Look{}, errReply("browse", reply)
	}
	if len(last) == 2 {
		look.Last = Place{last[0], last[1]}
	}
	for _, entry := range entries {
		fields, _ := entry.([]any)
		var j Sight
		var at string
		_, err := redis.Scan(fields, &j.ID, &at, &j.Topic, &j.Body, &j.Size, &j.Attempts, &j.Error, &j.Reason)
		if err == nil && state != "ready" {
			j.At, err = atTime(state, at)
		}
		if err != nil {
			return Look{}, errReply("browse", reply)
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
