package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

var limitScript = newScript("limit")

// Limit limits a topic's jobs. The zero value is no limit.
type Limit struct {
	Concurrency int     // reserved at a time; 0: any number
	Rate        float64 // starts per second; 0: any number
	Burst       int     // starts at once; 0: a quarter of a second's worth
	Tag         string  // of all IDs; its partition has the whole limit. "": each partition has a share
}

// String returns the text that Redis stores.
func (l Limit) String() string {
	return fmt.Sprintf("%d %s %d %s", l.Concurrency, strconv.FormatFloat(l.Rate, 'g', -1, 64), l.Burst, l.Tag)
}

// readLimit parses the text of String.
func readLimit(text string) (l Limit, err error) {
	fields := strings.SplitN(text, " ", 4)
	if len(fields) != 4 {
		return Limit{}, errUnreadable
	}
	var errs [3]error
	l.Concurrency, errs[0] = strconv.Atoi(fields[0])
	l.Rate, errs[1] = strconv.ParseFloat(fields[1], 64)
	l.Burst, errs[2] = strconv.Atoi(fields[2])
	l.Tag = fields[3]
	return l, errors.Join(errs[:]...)
}

// Share is a partition's part of a Limit.
type Share struct {
	Concurrency int     // -1: any number
	Interval    float64 // between two starts, in µs; 0: none
	Burst       int
}

// String returns the beginning of the share's field of Keys.Limits.
func (s Share) String() string {
	return fmt.Sprintf("%d %s %d", s.Concurrency, s.intervalText(), s.Burst)
}

// intervalText has no exponent, which the Lua of --dev does not read, and parses back to the same number.
func (s Share) intervalText() string { return strconv.FormatFloat(s.Interval, 'g', 17, 64) }

// SetLimit gives the topic this share of l, or removes its limit if l is zero. Jobs that are reserved already do not count until their leases end.
func (s *Store) SetLimit(ctx context.Context, topic string, l Limit, part Share) error {
	args := append(arguments(5, s.jobPool), topic, part.Concurrency, part.intervalText(), part.Burst, l.String())
	if l == (Limit{}) {
		args[len(args)-4] = ""
	}
	_, err := newCall(s, limitScript, args, unread).Do(ctx)
	return err
}

// Limit returns the topic's limit in all partitions.
func (s *Store) Limit(ctx context.Context, topic string) (Limit, error) {
	text, err := s.limitText(ctx, topic)
	if err != nil || text == "" {
		return Limit{}, err
	}
	return limitOf(text)
}

// limitText returns the topic's field of Keys.Limits; empty without a limit.
func (s *Store) limitText(ctx context.Context, topic string) (string, error) {
	text, err := redis.String(s.command(ctx, "HGET", s.keys.Limits(), topic))
	if errors.Is(err, redis.ErrNil) {
		return "", nil
	}
	return text, err
}

// Limits returns the limits of all topics.
func (s *Store) Limits(ctx context.Context) (map[string]Limit, error) {
	texts, err := redis.StringMap(s.command(ctx, "HGETALL", s.keys.Limits()))
	all := map[string]Limit{}
	for topic, text := range texts {
		if all[topic], err = limitOf(text); err != nil {
			return nil, fmt.Errorf("topic %s: %w", Quote(topic), err)
		}
	}
	return all, err
}

// limitOf parses a field of Keys.Limits: the partition's share, what has started, and the whole limit.
func limitOf(text string) (Limit, error) {
	fields := strings.SplitN(text, " ", 6)
	return readLimit(fields[len(fields)-1])
}
