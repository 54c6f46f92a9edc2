package store

import (
	"context"
	"maps"
	"strings"
	"time"

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

// Config returns settings of Redis.
func (s *Store) Config(ctx context.Context, names ...string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range names { // Redis before 7.0 takes one at a time
		values, err := redis.StringMap(s.command(ctx, "CONFIG", "GET", name))
		if err != nil {
			return nil, err
		}
		maps.Copy(all, values)
	}
	return all, nil
}

// SlowCommand is an entry of Redis's slow log.
type SlowCommand struct {
	At        time.Time
	Took      time.Duration
	Arguments []string // the first is the command
}

// SlowCommands returns the latest entries of Redis's slow log.
func (s *Store) SlowCommands(ctx context.Context) (list []SlowCommand, err error) {
	entries, err := redis.Values(s.command(ctx, "SLOWLOG", "GET", 128))
	for _, entry := range entries {
		var at, took int64
		var arguments []string
		fields, _ := redis.Values(entry, nil)
		if len(fields) < 4 {
			continue
		}
		if _, err := redis.Scan(fields[1:4], &at, &took, &arguments); err == nil && len(arguments) > 0 {
			list = append(list, SlowCommand{time.Unix(at, 0), time.Duration(took) * time.Microsecond, arguments})
		}
	}
	return list, err
}

// LatencyEvent is the latest event of one kind that Redis's latency monitor has seen.
type LatencyEvent struct {
	Name string
	At   time.Time
	Took time.Duration
}

// LatencyEvents returns the latest event of each kind. Without latency-monitor-threshold Redis sees none.
func (s *Store) LatencyEvents(ctx context.Context) (list []LatencyEvent, err error) {
	entries, err := redis.Values(s.command(ctx, "LATENCY", "LATEST"))
	for _, entry := range entries {
		var name string
		var at, took int64
		fields, _ := redis.Values(entry, nil)
		if _, err := redis.Scan(fields, &name, &at, &took); err == nil {
			list = append(list, LatencyEvent{name, time.Unix(at, 0), time.Duration(took) * time.Millisecond})
		}
	}
	return list, err
}

// ConnectionsAt returns the number of connections with that command as their last one.
func (s *Store) ConnectionsAt(ctx context.Context, command string) (int, error) {
	text, err := redis.String(s.command(ctx, "CLIENT", "LIST"))
	return strings.Count(text, " cmd="+command+" "), err
}

// ClusterState returns the state of the cluster as reported by the node: "ok", or else.
func (s *Store) ClusterState(ctx context.Context) (string, error) {
	text, err := redis.String(s.command(ctx, "CLUSTER", "INFO"))
	_, state, _ := strings.Cut(text, "cluster_state:")
	state, _, _ = strings.Cut(state, "\r")
	return state, err
}
