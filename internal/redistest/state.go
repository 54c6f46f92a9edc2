package redistest

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// State is all that lies in a Redis database, in a form that tests can compare.
type State struct {
	Pool    []string            // waiting IDs, in due order
	Ready   map[string][]string // topic → IDs, the next one first
	Buckets map[string]string   // ID → "topic body"
	Other   map[string]string   // any other key, or one of the wrong type → its type
}

// Read reads the whole database. Keys of ours begin with prefix.
func Read(tb testing.TB, conn redis.Conn, prefix string) State {
	tb.Helper()
	s := State{Ready: map[string][]string{}, Buckets: map[string]string{}, Other: map[string]string{}}
	do := func(command string, args ...any) []string {
		tb.Helper()
		list, err := redis.Strings(conn.Do(command, args...))
		if err != nil {
			tb.Fatalf("%s %q: %v", command, args, err)
		}
		return list
	}
	for _, key := range do("KEYS", "*") {
		kind, err := redis.String(conn.Do("TYPE", key))
		if err != nil {
			tb.Fatal(err)
		}
		name, ours := strings.CutPrefix(key, prefix)
		topic, isQueue := strings.CutPrefix(name, "ready_queue:")
		id, isBucket := strings.CutPrefix(name, "job_bucket:")
		switch {
		case ours && name == "job_pool" && kind == "zset":
			s.Pool = do("ZRANGE", key, 0, -1)
		case ours && isQueue && kind == "list":
			ids := do("LRANGE", key, 0, -1)
			for i := range len(ids) / 2 {
				ids[i], ids[len(ids)-1-i] = ids[len(ids)-1-i], ids[i]
			}
			s.Ready[topic] = ids
		case ours && isBucket && kind == "hash":
			fields := do("HMGET", key, "topic", "body")
			s.Buckets[id] = fields[0] + " " + fields[1]
		case kind != "none": // it expired just now
			s.Other[key] = kind
		}
	}
	return s
}
