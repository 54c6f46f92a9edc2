package store

import (
	"context"
	"math"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Peeked is the result of a Peek.
type Peeked struct {
	Now   time.Time // by Redis's clock; zero unless surely
	First []First   // of each partition
}

// First is the job of a partition that falls due first. Due is zero without one.
type First struct {
	ID  string
	Due time.Time // by Redis's clock
	Err error     // why it can't be read
}

// Peek reads the job that falls due first in each of the partitions, which share a Node: one command for each, in one round trip. With
// surely it also reads the time, and fails if the server takes no writes, since its data may be old. Any other error is the connection's.
func Peek(ctx context.Context, on []*Store, surely bool) (p Peeked, err error) {
	var commands [][]any
	for _, s := range on {
		commands = append(commands, []any{"ZRANGE", s.keys.JobPool(), 0, 0, "WITHSCORES"})
	}
	if surely {
		commands = append(commands, []any{"TIME"}, []any{"ZADD", on[0].keys.JobPool(), "XX", "GT", "-inf", ""}) // see not_writable
	}
	replies, err := on[0].together(ctx, commands)
	if err != nil {
		return p, err
	}
	for _, reply := range replies[:len(on)] {
		p.First = append(p.First, firstOf(reply))
	}
	if surely {
		p.Now, err = sure(replies[len(on):])
	}
	return p, err
}

// Overdue returns for how long the first job of the partitions, which share a Node, has been due: 0 if none is, or if that can't be read.
func Overdue(ctx context.Context, on []*Store) (longest time.Duration) {
	commands := [][]any{{"TIME"}}
	for _, s := range on {
		commands = append(commands, []any{"ZRANGE", s.keys.JobPool(), 0, 0, "WITHSCORES"})
	}
	replies, err := on[0].together(ctx, commands)
	if err != nil {
		return 0
	}
	var sec, micro int64
	if _, err := scan(replies[0], &sec, &micro); err != nil {
		return 0
	}
	now := time.Unix(sec, micro*1000)
	for _, reply := range replies[1:] {
		if first := firstOf(reply); !first.Due.IsZero() {
			longest = max(longest, now.Sub(first.Due))
		}
	}
	return longest
}

// sure reads the replies to TIME, and to a write that changes nothing.
func sure(replies []any) (now time.Time, err error) {
	if refused, _ := replies[1].(redis.Error); takesNoWrites(refused) {
		return now, refused
	}
	var sec, micro int64
	_, err = scan(replies[0], &sec, &micro)
	return time.Unix(sec, micro*1000), err
}

// farOff is later than any time that matters, in Unix seconds.
const farOff = 1e11

func firstOf(reply any) (f First) {
	pair, err := redis.Values(reply, nil)
	if err != nil || len(pair) == 0 {
		return First{Err: err}
	}
	var score float64
	if _, f.Err = redis.Scan(pair, &f.ID, &score); f.Err == nil {
		f.Due = time.UnixMicro(int64(math.Ceil(min(max(score, 0), farOff) * 1e6)))
	}
	return f
}
