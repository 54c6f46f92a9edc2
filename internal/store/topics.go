package store

import (
	"context"
	"math"

	"github.com/gomodule/redigo/redis"
)

var topicsScript = newScript("topics")

// topicsPage is the number of names that one script reads.
const topicsPage = 1000

// AllTopics exceeds the number of topics.
const AllTopics = math.MaxInt32

// KnownTopics returns up to most of the topics that were used last and contain the text, the latest last, and the number of known topics.
func (s *Store) KnownTopics(ctx context.Context, most int, containing string) (names []string, all int, err error) {
	return s.topicsOf(ctx, s.keys.Topics(), most, containing)
}

// DeadTopics is KnownTopics for topics with dead letters, by their oldest letters.
func (s *Store) DeadTopics(ctx context.Context, most int) (names []string, all int, err error) {
	return s.topicsOf(ctx, s.keys.DeadTopics(), most, "")
}

func (s *Store) topicsOf(ctx context.Context, key string, most int, containing string) ([]string, int, error) {
	var names []string
	var all int
	var at Position
	read := func(reply any) ([]string, error) {
		rest, err := redis.Values(reply, nil)
		if err == nil {
			rest, err = redis.Scan(rest, &all, &at.At, &at.ID)
		}
		return redis.Strings(rest, err)
	}
	seen := map[string]bool{}
	for {
		args := append(arguments(5, key), most, topicsPage, containing, at.At, at.ID)
		page, err := newCall(s, topicsScript, args, read).Do(ctx)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range page {
			if !seen[name] { // a topic that was used meanwhile appears again
				seen[name] = true
				names = append(names, name)
			}
		}
		if at == (Position{}) {
			return names[max(len(names)-most, 0):], all, nil
		}
	}
}

// IsKnown reports whether Redis knows the topic.
func (s *Store) IsKnown(ctx context.Context, topic string) (bool, error) {
	score, err := s.command(ctx, "ZSCORE", s.keys.Topics(), topic)
	return score != nil, err
}

// Length returns the length of a list.
func (s *Store) Length(ctx context.Context, list string) (int, error) {
	return redis.Int(s.command(ctx, "LLEN", list))
}

// Exist returns how many of the keys exist. They may be those of several stores of one Redis, in one command.
func (s *Store) Exist(ctx context.Context, keys ...string) (int, error) {
	return redis.Int(s.command(ctx, "EXISTS", appendAll(nil, keys)...))
}
