package redistest

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// State is all that lies in a Redis database, in a form that tests can compare, but for the
// known topics, the servers that run, their last hour, and the number of jobs that were acknowledged.
type State struct {
	Pool     []string            // waiting IDs, in due order
	Reserved []string            // reserved IDs, in the order in which their leases end
	Counts   map[string]string   // topic → the number of its reserved jobs that is kept, if it is not 0
	Ready    map[string][]string // topic → IDs, the next one first
	Buckets  map[string]string   // ID → "topic body"
	Dead     map[string][]string // topic → IDs of its dead letters, the oldest first
	Letters  map[string]string   // ID of a dead letter → "topic body"
	Other    map[string]string   // any other key, or one of the wrong type → its type
}

// Read reads the whole database. Keys of ours begin with prefix.
func Read(tb testing.TB, conn redis.Conn, prefix string) State {
	tb.Helper()
	s := State{
		Counts: map[string]string{}, Ready: map[string][]string{}, Buckets: map[string]string{},
		Dead: map[string][]string{}, Letters: map[string]string{}, Other: map[string]string{},
	}
	keys := list(tb, conn, "KEYS", "*")
	kinds := each(tb, conn, keys, "TYPE")
	var buckets, letters, deadTopics []string
	for i, key := range keys {
		kind, err := redis.String(kinds[i], nil)
		if err != nil {
			tb.Fatal(err)
		}
		name, ours := strings.CutPrefix(key, prefix)
		topic, isQueue := strings.CutPrefix(name, "ready_queue:")
		deadTopic, isDead := strings.CutPrefix(name, "dead_letters:")
		switch {
		case ours && name == "job_pool" && kind == "zset":
			s.Pool, s.Reserved = waitingAndReserved(tb, conn, key)
		case ours && (name == "topics" || name == "topics_due") && kind == "zset":
		case ours && (name == "servers" || name == "history") && kind == "hash":
		case ours && name == "acked" && kind == "string":
		case ours && name == "dead_topics" && kind == "zset":
			deadTopics = list(tb, conn, "ZRANGE", key, 0, -1)
		case ours && name == "reserved" && kind == "hash":
			counts, err := redis.StringMap(conn.Do("HGETALL", key))
			if err != nil {
				tb.Fatal(err)
			}
			maps.DeleteFunc(counts, func(_, count string) bool { return count == "0" })
			s.Counts = counts
		case ours && isDead && kind == "zset":
			s.Dead[deadTopic] = list(tb, conn, "ZRANGE", key, 0, -1)
		case ours && strings.HasPrefix(name, "dead_letter:") && kind == "hash":
			letters = append(letters, key)
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
	contents(tb, conn, buckets, prefix+"job_bucket:", s.Buckets)
	contents(tb, conn, letters, prefix+"dead_letter:", s.Letters)
	slices.Sort(deadTopics)
	if indexed := slices.Sorted(maps.Keys(s.Dead)); !slices.Equal(indexed, deadTopics) {
		tb.Errorf("topics with dead letters: %q, but dead_topics has %q", indexed, deadTopics)
	}
	return s
}

func contents(tb testing.TB, conn redis.Conn, keys []string, prefix string, into map[string]string) {
	tb.Helper()
	for i, reply := range each(tb, conn, keys, "HMGET", "topic", "body") {
		fields, err := redis.Strings(reply, nil)
		if err != nil {
			tb.Fatal(err)
		}
		into[strings.TrimPrefix(keys[i], prefix)] = fields[0] + " " + fields[1]
	}
}

// waitingAndReserved tells leases, which end at no whole millisecond, from due times.
func waitingAndReserved(tb testing.TB, conn redis.Conn, pool string) (waiting, reserved []string) {
	tb.Helper()
	entries := list(tb, conn, "ZRANGE", pool, 0, -1, "WITHSCORES")
	for ; len(entries) > 0; entries = entries[2:] {
		score, err := strconv.ParseFloat(entries[1], 64)
		if err != nil {
			tb.Fatal(err)
		}
		micros := math.Round(score * 1e6)
		if math.Mod(micros, 1000) != 0 && score < 1<<32 {
			reserved = append(reserved, entries[0])
		} else {
			waiting = append(waiting, entries[0])
		}
	}
	return waiting, reserved
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
	compare("reserved jobs", got.Reserved, want.Reserved)
	compare("counts of reserved jobs", got.Counts, want.Counts)
	compare("dead letters", got.Dead, want.Dead)
	compare("dead letters' buckets", got.Letters, want.Letters)
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
