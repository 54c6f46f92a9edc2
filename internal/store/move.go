package store

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	dueScript  = newScript("due", "checks", "stopwatch")
	moveScript = newScript("move", "checks", "stopwatch")
	dropScript = newScript("drop", "checks")
)

// IDs are job IDs as they came from Redis ([]byte each) and go back to it.
type IDs []any

// Batch is some due jobs of one topic, in due order.
type Batch struct {
	Topic string
	IDs   IDs
	Fresh bool // see Look
}

// Counts are how many of the due jobs are meant: of the backlog, and of the fresh ones.
type Counts struct {
	Backlog, Fresh int
}

// Plus is the sum of both.
func (c Counts) Plus(other Counts) Counts {
	return Counts{c.Backlog + other.Backlog, c.Fresh + other.Fresh}
}

// Total is how many that are in all.
func (c Counts) Total() int { return c.Backlog + c.Fresh }

// Look says which due jobs to look up: up to Limit, of the backlog those after
// the first Skip.Backlog, and of the fresh ones those after the first Skip.Fresh. The backlog was due by Since
// already (a Lookup's Now; empty means that all is backlog), fresh jobs fell due later.
type Look struct {
	Limit int
	Since string
	Skip  Counts
}

// Lookup is a look at the due jobs.
type Lookup struct {
	Batches []Batch       // the fresh ones first
	Orphans IDs           // due, but without a usable bucket
	Looked  Counts        // how many entries were looked at
	Due     int           // how many are due in all, those passed over included
	Now     string        // by Redis's clock
	Next    time.Duration // until the next falls due; -1 if none is known
	Took    time.Duration // Redis's time; 0 if unknown
}

// Moved is what became of a Batch.
type Moved struct {
	Batch               // those that are ready now
	Left  int           // how many were no longer there or no longer due
	Took  time.Duration // Redis's time; 0 if unknown
	Err   error         // why none of the batch was moved
}

// Due looks due jobs up.
func (s *Store) Due(ctx context.Context, look Look) (Lookup, error) {
	done, err := s.do(ctx, Round{Look: &look})
	return done.Lookup, err
}

// Move moves each batch to its topic's ready queue, by one script a topic, all
// sent at once. An error of one topic is in its Moved. The second result is an
// error of the connection: what Redis did with the batches is then unknown, and
// the next look-up tells.
func (s *Store) Move(ctx context.Context, batches []Batch) ([]Moved, error) {
	done, err := s.do(ctx, Round{Batches: batches})
	return done.Moved, err
}

// Drop takes the orphans out of the pool that still are orphans, and returns them.
func (s *Store) Drop(ctx context.Context, orphans IDs) (IDs, error) {
	done, err := s.do(ctx, Round{Orphans: orphans})
	return done.Dropped, err
}

func lookupOf(reply any) (Lookup, error) {
	values, err := redis.Values(reply, nil)
	if err != nil {
		return Lookup{}, err
	}
	var took, wait int64
	var look Lookup
	rest, err := redis.Scan(values, &took, &look.Now, &look.Due, &wait)
	if err != nil || len(rest) != 3 {
		return Lookup{}, errReply("due", reply)
	}
	look.Took = time.Duration(took) * time.Microsecond
	look.Next = max(time.Duration(wait)*time.Microsecond, -1)
	look.Orphans, _ = rest[0].([]any)
	fresh, _ := rest[1].([]any)
	backlog, _ := rest[2].([]any)
	look.Looked.Fresh = look.add(fresh, true)
	look.Looked.Backlog = look.add(backlog, false)
	return look, nil
}

// add appends the batches of what due.lua found, and returns how many entries it looked at.
func (l *Lookup) add(found []any, fresh bool) (looked int) {
	if len(found) == 0 {
		return 0
	}
	n, _ := found[0].(int64)
	for found = found[1:]; len(found) >= 2; found = found[2:] {
		topic, _ := found[0].([]byte)
		ids, _ := found[1].([]any)
		l.Batches = append(l.Batches, Batch{string(topic), ids, fresh})
	}
	return int(n)
}

func movedOf(b Batch, reply any) Moved {
	if err, ok := reply.(redis.Error); ok {
		return Moved{Batch: Batch{Topic: b.Topic, Fresh: b.Fresh}, Err: err}
	}
	numbers, err := redis.Int64s(reply, nil)
	if err != nil || len(numbers) == 0 {
		return Moved{Batch: Batch{Topic: b.Topic, Fresh: b.Fresh}, Err: errReply("move", reply)}
	}
	left := numbers[1:]
	return Moved{
		Batch: Batch{b.Topic, without(b.IDs, left), b.Fresh},
		Left:  len(left),
		Took:  time.Duration(numbers[0]) * time.Microsecond,
	}
}

// without is ids less those at the given 1-based, rising places.
func without(ids IDs, places []int64) IDs {
	if len(places) == 0 {
		return ids
	}
	rest := make(IDs, 0, len(ids))
	for i, id := range ids {
		if len(places) > 0 && places[0] == int64(i+1) {
			places = places[1:]
			continue
		}
		rest = append(rest, id)
	}
	return rest
}
