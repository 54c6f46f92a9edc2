package store

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// EvictionPolicy is the maxmemory-policy of a Redis that throws keys away when it is full, "" of one that does not, or does not tell.
func (s *Store) EvictionPolicy(ctx context.Context) string {
	says, _ := s.Info(ctx)
	if policy := says["maxmemory_policy"]; policy != "noeviction" {
		return policy
	}
	return ""
}

// Info is what Redis says of itself, field by field.
func (s *Store) Info(ctx context.Context) (map[string]string, error) {
	text, err := redis.String(s.command(ctx, "INFO"))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
