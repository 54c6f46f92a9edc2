package store

import (
	"context"
	"errors"
	"slices"

	"github.com/gomodule/redigo/redis"
)

var layoutScript = newScript("layout")

// Layout returns the number of partitions that this one, partition 0, stores; 0 if it stores none.
func (s *Store) Layout(ctx context.Context) (int, error) {
	n, err := redis.Int(s.command(ctx, "HGET", s.keys.Layout(), "partitions"))
	if errors.Is(err, redis.ErrNil) {
		return 0, nil
	}
	return n, err
}

// KeepLayout stores the number of partitions, unless there is one, and returns the one that is stored.
func (s *Store) KeepLayout(partitions int) *Call[int] {
	args := append(arguments(1, s.keys.Layout()), partitions)
	return newCall(s, layoutScript, args, func(reply any) (int, error) { return redis.Int(reply, nil) })
}

// Size returns the approximate number of jobs and dead letters.
func (s *Store) Size(ctx context.Context) (int, error) {
	topics, err := s.EveryTopic(ctx)
	if err != nil {
		return 0, err
	}
	stats, err := s.Stats(ctx, topics, false)
	n := stats.Pool
	for _, t := range stats.Topics {
		n += max(t.Ready, 0) + max(t.Dead, 0)
	}
	return n, err
}

// EveryTopic returns the topics that are known or have dead letters.
func (s *Store) EveryTopic(ctx context.Context) ([]string, error) {
	known, _, err := s.KnownTopics(ctx, AllTopics, "")
	if err != nil {
		return nil, err
	}
	dead, _, err := s.DeadTopics(ctx, AllTopics)
	all := append(known, dead...)
	slices.Sort(all)
	return slices.Compact(all), err
}
