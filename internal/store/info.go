package store

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Info is what Redis says of itself, field by field.
func (s *Store) Info(ctx context.Context) (map[string]string, error) {
	conn, err := s.pool.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer conn.Close()
	text, err := redis.String(redis.DoContext(conn, ctx, "INFO"))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}
