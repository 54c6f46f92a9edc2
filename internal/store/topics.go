package store

import (
	"context"
	"math"

	"github.com/gomodule/redigo/redis"
)

var topicsScript = newScript("topics")

// topicsPage is how many names of topics one script looks at.
const topicsPage = 1000

// AllTopics is more topics than there can be.
const AllTopics = math.MaxInt32

// KnownTopics are the names of the topics that were used last, so many of them at most, that
// contain the text: the one that was used last comes last. all is how many topics are known.
func (s *Store) KnownTopics(ctx context.Context, most int, containing string) (names []string, all int, err error) {
	return s.topicsOf(ctx, s.keys.Topics(), most, containing)
}

// DeadTopics is KnownTopics of those that have dead letters, in the order in which their oldest died.
func (s *Store) DeadTopics(ctx context.Context, most int) (names []string, all int, err error) {
	return s.topicsOf(ctx, s.keys.DeadTopics(), most, "")
}

func (s *Store) topicsOf(ctx context.Context, key string, most int, containing string) ([]string, int, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer p.Close()
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
		page, err := newCall(s, topicsScript, args, read).On(ctx, p)
		if err != nil {
			return nil, 0, err
		}
		for _, name := range page {
			if !seen[name] { // one that was used meanwhile comes again
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
