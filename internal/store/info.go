package store

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Info returns the fields of Redis's INFO.
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
