package redistest

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

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
	keys := list(tb, conn, "KEYS", "*")
	kinds := each(tb, conn, keys, "TYPE")
	var buckets []string
	for i, key := range keys {
		kind, err := redis.String(kinds[i], nil)
		if err != nil {
			tb.Fatal(err)
		}
		name, ours := strings.CutPrefix(key, prefix)
		topic, isQueue := strings.CutPrefix(name, "ready_queue:")
		switch {
		case ours && name == "job_pool" && kind == "zset":
			s.Pool = list(tb, conn, "ZRANGE", key, 0, -1)
		case ours && isQueue && kind == "list":
			ids := list(tb, conn, "LRANGE", key, 0, -1)
			slices.Reverse(ids)
			s.Ready[topic] = ids
		case ours && strings.HasPrefix(name, "job_bucket:") && kind == "hash":
			buckets = append(buckets, key)
		case kind != "none": // it expired just now
			s.Other[key] = kind
		}
	}
	for i, reply := range each(tb, conn, buckets, "HMGET", "topic", "body") {
		fields, err := redis.Strings(reply, nil)
		if err != nil {
			tb.Fatal(err)
		}
		s.Buckets[strings.TrimPrefix(buckets[i], prefix+"job_bucket:")] = fields[0] + " " + fields[1]
	}
	return s
}

// Expect fails the test unless the whole database is as wanted, where a nil map
// or list is an empty one.
func Expect(tb testing.TB, conn redis.Conn, prefix string, want State) {
	tb.Helper()
	got := Read(tb, conn, prefix)
	compare := func(what string, got, want any) {
		tb.Helper()
		if reflect.ValueOf(got).Len()+reflect.ValueOf(want).Len() > 0 && !reflect.DeepEqual(got, want) {
			tb.Errorf("%s in Redis:\n got %.2000q\nwant %.2000q", what, got, want)
		}
	}
	compare("job pool", got.Pool, want.Pool)
	compare("ready queues", got.Ready, want.Ready)
	compare("job buckets", got.Buckets, want.Buckets)
	compare("other keys", got.Other, want.Other)
}

// Scores reads when the waiting jobs fall due, by ID, as Redis words it.
func Scores(tb testing.TB, conn redis.Conn, prefix string) map[string]string {
	tb.Helper()
	scores, err := redis.StringMap(conn.Do("ZRANGE", prefix+"job_pool", 0, -1, "WITHSCORES"))
	if err != nil {
		tb.Fatal(err)
	}
	return scores
}

// Lifetimes reads how long the buckets are kept from now on, by ID; -1 is for
// ever. What exceeds a time.Duration is cut to the longest one.
func Lifetimes(tb testing.TB, conn redis.Conn, prefix string) map[string]time.Duration {
	tb.Helper()
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	lifetimes := map[string]time.Duration{}
	keys := list(tb, conn, "KEYS", prefix+"job_bucket:*")
	for i, reply := range each(tb, conn, keys, "PTTL") {
		ms, err := redis.Int64(reply, nil)
		if err != nil {
			tb.Fatal(err)
		}
		if ms == -2 {
			continue // it expired just now
		}
		lifetime := time.Duration(min(ms, longest)) * time.Millisecond
		lifetimes[strings.TrimPrefix(keys[i], prefix+"job_bucket:")] = max(lifetime, -1)
	}
	return lifetimes
}

func list(tb testing.TB, conn redis.Conn, command string, args ...any) []string {
	tb.Helper()
	list, err := redis.Strings(conn.Do(command, args...))
	if err != nil {
		tb.Fatalf("%s %q: %v", command, args, err)
	}
	return list
}

// each runs a command on each of the keys.
func each(tb testing.TB, conn redis.Conn, keys []string, command string, args ...any) []any {
	tb.Helper()
	if len(keys) == 0 {
		return nil
	}
	for _, key := range keys {
		if err := conn.Send(command, append([]any{key}, args...)...); err != nil {
			tb.Fatal(err)
		}
	}
	replies, err := redis.Values(conn.Do(""))
	if err != nil {
		tb.Fatalf("%s: %v", command, err)
	}
	return replies
}
