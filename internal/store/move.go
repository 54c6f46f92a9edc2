package store

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	dueScript  = script("due", "common", "stopwatch")
	moveScript = script("move", "common", "stopwatch")
	dropScript = script("drop", "common")
)

// IDs are job IDs as they came from Redis ([]byte each) and go back to it.
type IDs []any

// Strings copies the IDs.
func (ids IDs) Strings() []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id.([]byte))
	}
	return list
}

// Batch is some due jobs of one topic, in due order.
type Batch struct {
	Topic string
	IDs   IDs
}

// Lookup is a look at the due jobs.
type Lookup struct {
	Batches []Batch
	Orphans IDs           // due, but without a usable bucket
	Due     int           // how many are due in all, those passed over included
	Next    time.Duration // until the next falls due; -1 if none is known
	Took    time.Duration // Redis's time; 0 if unknown
}

// Due looks up to limit due jobs up, after passing over the first skip of them.
func (s *Store) Due(ctx context.Context, limit, skip int) (Lookup, error) {
	reply, err := redis.Values(s.run(ctx, dueScript, []string{s.keys.JobPool()}, s.keys.JobBucket(""), limit, skip))
	if err != nil {
		return Lookup{}, err
	}
	var took, wait int64
	var orphans []any
	look := Lookup{}
	rest, err := redis.Scan(reply, &took, &look.Due, &wait)
	if err == nil && len(rest)%2 == 1 {
		orphans, _ = rest[0].([]any)
		rest = rest[1:]
	} else {
		return Lookup{}, errReply("due", reply)
	}
	look.Orphans = orphans
	look.Took = time.Duration(took) * time.Microsecond
	look.Next = time.Duration(wait) * time.Microsecond
	if wait < 0 {
		look.Next = -1
	}
	look.Batches = make([]Batch, 0, len(rest)/2)
	for i := 0; i < len(rest); i += 2 {
		topic, _ := rest[i].([]byte)
		ids, _ := rest[i+1].([]any)
		look.Batches = append(look.Batches, Batch{string(topic), ids})
	}
	return look, nil
}

// Moved is what became of a Batch.
type Moved struct {
	Batch               // those that are ready now
	Left  int           // how many were no longer there or no longer due
	Took  time.Duration // Redis's time; 0 if unknown
	Err   error         // why none of the batch was moved
}

// Move moves each batch to its topic's ready queue, by one script a topic, all
// sent at once. An error of one topic is in its Moved. The second result is an
// error of the connection: what Redis did with the batches is then unknown, and
// the next look-up tells.
func (s *Store) Move(ctx context.Context, batches []Batch) ([]Moved, error) {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()

	replies, err := s.sendMoves(ctx, conn, batches)
	if err == nil && anyNoScript(replies) {
		if err = moveScript.Load(conn); err == nil {
			// A script that was there for some of them has moved those;
			// asked again, it finds them gone and leaves them alone.
			err = s.resendUnknown(ctx, conn, batches, replies)
		}
	}
	if err != nil {
		return nil, err
	}
	moved := make([]Moved, len(batches))
	for i, reply := range replies {
		moved[i] = movedOf(batches[i], reply)
	}
	return moved, nil
}

func (s *Store) sendMoves(ctx context.Context, conn redis.Conn, batches []Batch) ([]any, error) {
	for _, b := range batches {
		keys := []string{s.keys.JobPool(), s.keys.ReadyQueue(b.Topic)}
		if err := moveScript.SendHash(conn, scriptArgs(keys, b.IDs...)...); err != nil {
			return nil, err
		}
	}
	replies, err := redis.Values(redis.DoContext(conn, ctx, ""))
	if err == nil && len(replies) != len(batches) {
		err = errReply("move", replies)
	}
	return replies, err
}

// resendUnknown sends those again that Redis did not know the script for.
func (s *Store) resendUnknown(ctx context.Context, conn redis.Conn, batches []Batch, replies []any) error {
	var again []Batch
	var places []int
	for i, reply := range replies {
		if isNoScript(reply) {
			again, places = append(again, batches[i]), append(places, i)
		}
	}
	second, err := s.sendMoves(ctx, conn, again)
	for i, reply := range second {
		replies[places[i]] = reply
	}
	return err
}

func anyNoScript(replies []any) bool {
	for _, reply := range replies {
		if isNoScript(reply) {
			return true
		}
	}
	return false
}

func isNoScript(reply any) bool {
	err, ok := reply.(redis.Error)
	return ok && strings.HasPrefix(string(err), "NOSCRIPT ")
}

func movedOf(b Batch, reply any) Moved {
	if err, ok := reply.(redis.Error); ok {
		return Moved{Batch: Batch{Topic: b.Topic}, Err: err}
	}
	numbers, err := redis.Int64s(reply, nil)
	if err != nil || len(numbers) == 0 {
		return Moved{Batch: Batch{Topic: b.Topic}, Err: errReply("move", reply)}
	}
	left := numbers[1:]
	return Moved{
		Batch: Batch{b.Topic, without(b.IDs, left)},
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

// Drop takes the orphans out of the pool that still are orphans, and returns them.
func (s *Store) Drop(ctx context.Context, orphans IDs) (IDs, error) {
	args := append([]any{s.keys.JobBucket("")}, orphans...)
	return redis.Values(s.run(ctx, dropScript, []string{s.keys.JobPool()}, args...))
}
